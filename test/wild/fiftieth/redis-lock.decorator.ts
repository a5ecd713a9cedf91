import { randomUUID } from 'node:crypto';
import { PrismaClient } from '@prisma/client';
import { createClient } from 'redis';

export const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 2_000,
  socket: { socketTimeout: 6_000, reconnectStrategy: (n) => Math.min(n * 100, 2_000) },
});
redis.on('error', (err) => console.error('[redis]', err.message));

const prisma = new PrismaClient();

const DEL_IF_EQUAL = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0`;

interface ExclusiveOptions {
  key: (...args: any[]) => string;
  ttlMs: number;
  waitMs: number;
}

export class ResourceBusyError extends Error {
  readonly statusCode = 423;
}

async function acquire(key: string, ttlMs: number, waitMs: number): Promise<string> {
  const token = randomUUID();
  const deadline = Date.now() + waitMs;
  for (let attempt = 0; ; attempt++) {
    const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
    if (reply === 'OK') return token;
    const pause = Math.min(50 * 2 ** attempt, 500) * (0.5 + Math.random());
    if (Date.now() + pause > deadline) throw new ResourceBusyError(`${key} is locked`);
    await new Promise((r) => setTimeout(r, pause));
  }
}

export function Exclusive(opts: ExclusiveOptions) {
  return (_target: object, _name: string, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as (...args: any[]) => Promise<unknown>;
    descriptor.value = async function (this: unknown, ...args: any[]) {
      const key = opts.key(...args);
      const token = await acquire(key, opts.ttlMs, opts.waitMs);
      try {
        return await method.apply(this, args);
      } finally {
        try {
          await redis.eval(DEL_IF_EQUAL, { keys: [key], arguments: [token] });
        } catch (err) {
          console.warn(`unlock ${key}:`, (err as Error).message);
        }
      }
    };
    return descriptor;
  };
}

export class SubscriptionService {
  @Exclusive({ key: (id: string) => `lock:subscription:${id}`, ttlMs: 20_000, waitMs: 3_000 })
  async changePlan(id: string, planId: string) {
    return prisma.$transaction(
      async (tx) => {
        const sub = await tx.subscription.findUniqueOrThrow({ where: { id }, include: { plan: true } });
        if (sub.planId === planId) return sub;
        const next = await tx.plan.findUniqueOrThrow({ where: { id: planId } });

        const left = Math.max(0, sub.periodEnd.getTime() - Date.now());
        const share = left / (sub.periodEnd.getTime() - sub.periodStart.getTime());
        const amount = Math.round((next.priceCents - sub.plan.priceCents) * share);

        const { count } = await tx.subscription.updateMany({
          where: { id, version: sub.version },
          data: { planId, version: { increment: 1 } },
        });
        if (count !== 1) throw new ResourceBusyError(`subscription ${id} was modified`);
        await tx.ledgerEntry.create({ data: { subscriptionId: id, amountCents: amount, kind: 'PRORATION' } });
        return tx.subscription.findUniqueOrThrow({ where: { id } });
      },
      { maxWait: 2_000, timeout: 6_000 },
    );
  }
}
