import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import type { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!);

const LEASE_MS = 15_000;
// pool: connectionTimeoutMillis 1s + statement_timeout 2s, so nothing we start can land later than that
const SAFETY_MS = 4_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class BarrierLock {
  private constructor(
    private readonly key: string,
    private readonly token: string,
    private readonly grantedAt: number,
  ) {}

  /** null = someone else is operating this barrier */
  static async tryTake(barrierId: string): Promise<BarrierLock | null> {
    const key = `parking:barrier:${barrierId}`;
    const token = randomUUID();
    const before = performance.now();
    const res = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
    if (res !== 'OK') return null;
    return new BarrierLock(key, token, before);
  }

  isValid(): boolean {
    return performance.now() - this.grantedAt < LEASE_MS - SAFETY_MS;
  }

  async giveBack(): Promise<void> {
    await redis.eval(UNLOCK, 1, this.key, this.token);
  }
}

export async function admitCar(pool: Pool, barrierId: string, plate: string) {
  const lock = await BarrierLock.tryTake(barrierId);
  if (!lock) return { admitted: false, reason: 'barrier-busy' as const };
  try {
    const { rows } = await pool.query('select free from bays where barrier_id = $1', [barrierId]);
    const free = Number(rows[0]?.free ?? 0);
    if (free <= 0) return { admitted: false, reason: 'full' as const };
    if (!lock.isValid()) return { admitted: false, reason: 'too-slow' as const };
    await pool.query(
      'with s as (update bays set free = $2 where barrier_id = $1 returning 1) insert into visits(barrier_id, plate) select $1, $3 from s',
      [barrierId, free - 1, plate],
    );
    return { admitted: true as const };
  } finally {
    await lock.giveBack().catch(() => undefined); // the lease runs out by itself
  }
}
