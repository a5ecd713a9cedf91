import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { logger } from './logger';

const LEASE_MS = 15_000;

// KEYS[1] lease, KEYS[2] last fence handed out
// Fences follow the server clock so that they keep growing even if the
// counter key is lost (flush, restore from an old dump).
const ACQUIRE = `
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return tonumber(redis.call('GET', KEYS[2]))
end
if holder then
  return 0
end
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local fence = math.max(last + 1, now)
redis.call('SET', KEYS[2], string.format('%.0f', fence))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class ClaimBusyError extends Error {
  constructor(readonly claimId: string) {
    super(`claim ${claimId} is being worked on by someone else`);
    this.name = 'ClaimBusyError';
  }
}

export class StaleLeaseError extends Error {
  constructor(readonly claimId: string, readonly fence: number) {
    super(`fence ${fence} is no longer current for claim ${claimId}`);
    this.name = 'StaleLeaseError';
  }
}

type Decide = (currentCents: number) => Promise<number>;

export class ClaimReserves {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
  ) {}

  /**
   * Reads the reserve of a claim, lets `decide` work out the new one and stores it.
   * `decide` may call the actuarial service and can be slow; if the lease has gone to
   * somebody else in the meantime nothing is stored and StaleLeaseError is thrown.
   */
  async adjust(claimId: string, decide: Decide): Promise<number> {
    const lease = `{claim:${claimId}}:lease`;
    const counter = `{claim:${claimId}}:fence`;
    const token = randomUUID();

    const fence = Number(await this.redis.eval(ACQUIRE, 2, lease, counter, token, LEASE_MS));
    if (fence === 0) throw new ClaimBusyError(claimId);

    try {
      // Take the row over before reading it. From here on an older holder cannot write.
      const taken = await this.pool.query(
        `UPDATE claim_reserve SET fence = $2
          WHERE claim_id = $1 AND fence < $2
        RETURNING amount_cents`,
        [claimId, fence],
      );
      if (taken.rowCount === 0) throw new StaleLeaseError(claimId, fence);

      const next = await decide(Number(taken.rows[0].amount_cents));

      const stored = await this.pool.query(
        `UPDATE claim_reserve SET amount_cents = $3, updated_at = now()
          WHERE claim_id = $1 AND fence = $2`,
        [claimId, fence, next],
      );
      if (stored.rowCount === 0) throw new StaleLeaseError(claimId, fence);
      return next;
    } finally {
      await this.redis
        .eval(RELEASE, 1, lease, token)
        .catch((err) => logger.warn({ err, claimId }, 'lease not released, will expire'));
    }
  }
}
