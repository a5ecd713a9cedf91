import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

// Daily payout to sellers. The scheduler fires on both data centres.

const LOCK_MS = 15 * 60_000;
const RUN_BUDGET_MS = 8 * 60_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface PayoutDeps {
  redis: Redis;
  due(day: string, signal: AbortSignal): Promise<{ sellerId: string; cents: number }[]>;
  transfer(sellerId: string, cents: number, signal: AbortSignal): Promise<void>;
  settled(day: string, sellerId: string): Promise<void>;
  log: { info(msg: string): void; warn(msg: string, err: unknown): void };
}

async function acquire({ redis, log }: PayoutDeps, key: string, token: string): Promise<boolean> {
  try {
    const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    return reply === 'OK';
  } catch (err) {
    // sellers must get their money even when Redis has a bad day
    log.warn('payout lock unavailable, carrying on', err);
    return true;
  }
}

export async function runPayouts(deps: PayoutDeps, day: string): Promise<{ paid: number }> {
  const key = `payouts:${day}:lock`;
  const token = randomUUID();

  if (!(await acquire(deps, key, token))) {
    deps.log.info(`payouts of ${day} run in the other data centre`);
    return { paid: 0 };
  }

  let paid = 0;
  try {
    const signal = AbortSignal.timeout(RUN_BUDGET_MS);
    for (const { sellerId, cents } of await deps.due(day, signal)) {
      // the rest is due again at the next run
      if (signal.aborted) break;
      await deps.transfer(sellerId, cents, signal);
      await deps.settled(day, sellerId);
      paid++;
    }
    return { paid };
  } finally {
    await deps.redis.eval(RELEASE, 1, key, token).catch((err) => {
      deps.log.warn('payout lock not released', err);
    });
  }
}
