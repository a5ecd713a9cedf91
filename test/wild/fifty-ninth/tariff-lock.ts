import { ulid } from 'ulid';
import type { Pool } from 'pg';
import { createClient } from 'redis';
import pino from 'pino';
import { fetchSpotPrices } from './epex';
import { buildTariff } from './tariff-model';

const log = pino({ name: 'tariff-publisher' });

type RedisClient = ReturnType<typeof createClient>;

export interface Lease {
  planId: string;
  token: string;
  fence: number;
}

// Both keys carry the same hash tag, so the script also works on the cluster.
const lockKey = (planId: string) => `{tariff:${planId}}:lock`;
const fenceKey = (planId: string) => `{tariff:${planId}}:fence`;

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class FencedOutError extends Error {
  constructor(lease: Lease) {
    super(`plan ${lease.planId}: a later holder than #${lease.fence} is at work`);
    this.name = 'FencedOutError';
  }
}

export class TariffLock {
  constructor(private readonly redis: RedisClient, private readonly ttlMs = 20_000) {}

  async acquire(planId: string): Promise<Lease | null> {
    const token = ulid();
    const fence = Number(
      await this.redis.eval(ACQUIRE, {
        keys: [lockKey(planId), fenceKey(planId)],
        arguments: [token, String(this.ttlMs)],
      }),
    );
    return fence > 0 ? { planId, token, fence } : null;
  }

  async release(lease: Lease): Promise<void> {
    try {
      await this.redis.eval(RELEASE, { keys: [lockKey(lease.planId)], arguments: [lease.token] });
    } catch (err) {
      log.warn({ err, planId: lease.planId }, 'could not release, waiting for expiry');
    }
  }
}

/**
 * Publishes the day-ahead tariff of a plan. The lock keeps two publishers from doing the work
 * twice; what keeps the row correct is the fence. We put our number on the row before reading
 * it, and write only while it is still ours, so an overtaken publisher cannot write any more.
 */
export async function publishTariff(lock: TariffLock, pg: Pool, planId: string): Promise<'published' | 'busy'> {
  const lease = await lock.acquire(planId);
  if (!lease) return 'busy';

  try {
    const claimed = await pg.query<{ margin_ct: string; grid_area: string }>(
      `UPDATE tariff_plans SET fence = $2
        WHERE id = $1 AND fence < $2
        RETURNING margin_ct, grid_area`,
      [planId, lease.fence],
    );
    if (claimed.rowCount !== 1) throw new FencedOutError(lease);

    const { margin_ct, grid_area } = claimed.rows[0];
    const prices = await fetchSpotPrices(grid_area, { signal: AbortSignal.timeout(10_000) });
    const slots = buildTariff(prices, Number(margin_ct));

    const written = await pg.query(
      `UPDATE tariff_plans
          SET slots = $3::jsonb, published_at = now()
        WHERE id = $1 AND fence = $2`,
      [planId, lease.fence, JSON.stringify(slots)],
    );
    if (written.rowCount !== 1) throw new FencedOutError(lease);

    log.info({ planId, fence: lease.fence, slots: slots.length }, 'tariff published');
    return 'published';
  } finally {
    await lock.release(lease);
  }
}
