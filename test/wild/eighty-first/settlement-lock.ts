import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({ statement_timeout: 10_000 });

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class MerchantLock {
  private static readonly known = new Map<string, MerchantLock>();
  private token = '';

  private constructor(
    private readonly key: string,
    private readonly ttlMs: number,
  ) {}

  static for(merchantId: string): MerchantLock {
    let lock = MerchantLock.known.get(merchantId);
    if (!lock) {
      lock = new MerchantLock(`settle:${merchantId}`, 60_000);
      MerchantLock.known.set(merchantId, lock);
    }
    return lock;
  }

  async acquire(): Promise<boolean> {
    this.token = randomUUID();
    const reply = await redis.set(this.key, this.token, 'PX', this.ttlMs, 'NX');
    return reply === 'OK';
  }

  async extend(): Promise<boolean> {
    return (await redis.eval(EXTEND, 1, this.key, this.token, this.ttlMs)) === 1;
  }

  async release(): Promise<void> {
    await redis.eval(RELEASE, 1, this.key, this.token);
  }
}

export async function settle(merchantId: string): Promise<'settled' | 'busy'> {
  const lock = MerchantLock.for(merchantId);
  if (!(await lock.acquire())) return 'busy';
  try {
    const { rows } = await pool.query<{ id: string }>(
      `SELECT id FROM settlement_batches WHERE merchant_id = $1 AND state = 'open' ORDER BY id`,
      [merchantId],
    );
    for (const batch of rows) {
      if (!(await lock.extend())) throw new Error(`lock on ${merchantId} lost before batch ${batch.id}`);
      await pool.query(
        `UPDATE settlement_batches SET state = 'settled', settled_at = now() WHERE id = $1 AND state = 'open'`,
        [batch.id],
      );
    }
    return 'settled';
  } finally {
    await lock.release();
  }
}
