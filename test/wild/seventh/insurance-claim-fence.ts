import { createClient } from 'redis';
import type { Pool } from 'pg';
import { randomUUID } from 'crypto';

export type RedisConn = ReturnType<typeof createClient>;

const ACQUIRE = `
if redis.call('EXISTS', KEYS[1]) == 1 then
  return nil
end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
`;

export class StaleAdjuster extends Error {}

export class ClaimDesk {
  constructor(private redis: RedisConn, private db: Pool) {}

  async adjust(claimId: string, assess: (current: number) => Promise<number>): Promise<boolean> {
    const lock = `claim:{${claimId}}:desk`;
    const token = randomUUID();
    const fence = await this.redis.eval(ACQUIRE, {
      keys: [lock, `claim:{${claimId}}:fence`],
      arguments: [token, '45000'],
    });
    if (fence === null) return false;

    try {
      // entering already raises the fence, so that older adjusters are shut out before we read
      const entry = await this.db.query(
        'UPDATE claims SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING amount_cents',
        [claimId, fence],
      );
      if (entry.rowCount === 0) throw new StaleAdjuster(claimId);

      const amount = await assess(Number(entry.rows[0].amount_cents));

      const write = await this.db.query(
        'UPDATE claims SET amount_cents = $3, adjusted_at = now() WHERE id = $1 AND fence = $2',
        [claimId, fence, amount],
      );
      if (write.rowCount === 0) throw new StaleAdjuster(claimId);
      return true;
    } finally {
      await this.redis.eval(RELEASE, { keys: [lock], arguments: [token] }).catch(() => undefined);
    }
  }
}
