import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource, In } from 'typeorm';
import { Wallet } from '../entities/wallet.entity';
import { Transfer } from '../entities/transfer.entity';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
redis.connect().catch(() => process.exit(1));

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class ResourceBusyError extends Error {}
export class InsufficientFundsError extends Error {}

interface LockedOptions {
  ttlMs: number;
  waitMs: number;
}

/** Runs the method under a lock named by `keyOf(...args)`. */
export function Locked(keyOf: (...args: any[]) => string, { ttlMs, waitMs }: LockedOptions) {
  return (_target: object, _name: string, descriptor: PropertyDescriptor) => {
    const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;

    descriptor.value = async function (this: unknown, ...args: unknown[]) {
      const key = `lock:${keyOf(...args)}`;
      const token = randomUUID();
      const until = Date.now() + waitMs;

      while ((await redis.set(key, token, { NX: true, PX: ttlMs })) !== 'OK') {
        if (Date.now() >= until) throw new ResourceBusyError(key);
        await sleep(30 + Math.random() * 70);
      }

      try {
        return await original.apply(this, args);
      } finally {
        await redis
          .eval(UNLOCK, { keys: [key], arguments: [token] })
          .catch((err) => console.warn('unlock failed', key, err));
      }
    };
  };
}

export class WalletService {
  private readonly dataSource: DataSource;

  constructor(dataSource: DataSource) {
    this.dataSource = dataSource;
  }

  @Locked((from: string) => `wallet:${from}`, { ttlMs: 20_000, waitMs: 4_000 })
  async transfer(from: string, to: string, amountCents: number, reference: string): Promise<Transfer> {
    if (from === to) throw new RangeError('cannot transfer to the same wallet');
    if (!Number.isSafeInteger(amountCents) || amountCents <= 0) throw new RangeError('amount');

    return this.dataSource.transaction(async (em) => {
      await em.query(`SET LOCAL statement_timeout = '2500ms'`);

      const wallets = await em.find(Wallet, { where: { id: In([from, to]) } });
      const source = wallets.find((w) => w.id === from);
      const target = wallets.find((w) => w.id === to);
      if (!source || !target) throw new Error('wallet not found');
      if (source.currency !== target.currency) throw new Error('currency mismatch');
      if (source.balanceCents < amountCents) throw new InsufficientFundsError(from);

      source.balanceCents -= amountCents;
      target.balanceCents += amountCents;
      await em.save([source, target]);

      return em.save(
        em.create(Transfer, { fromWalletId: from, toWalletId: to, amountCents, reference }),
      );
    });
  }
}
