import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

interface Db {
  query<T>(sql: string, params: unknown[]): Promise<{ rowCount: number; rows: T[] }>;
}

interface PlacementRules {
  choose(patientId: string, freeBeds: string[]): Promise<string | null>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

interface Grant {
  key: string;
  token: string;
  fence: number;
}

const TTL_MS = 20_000;
const WAIT_MS = 4_000;

// The grant and its number are made in one step; the counter never expires.
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

export class BedAssignment {
  private readonly redis: Redis;
  private readonly db: Db;
  private readonly rules: PlacementRules;
  private readonly log: Logger;

  constructor(redis: Redis, db: Db, rules: PlacementRules, log: Logger) {
    this.redis = redis;
    this.db = db;
    this.rules = rules;
    this.log = log;
  }

  /**
   * Gives the patient a bed on the ward. The lock in Redis keeps the desks from
   * stepping on each other; the number in wards.fence decides. A grant first
   * registers its number, which shuts out every older grant, and its write only
   * goes through while that number is still the newest. (If Redis ever loses its
   * counter, grants are refused here until it is set past the largest fence.)
   */
  async assign(wardId: string, patientId: string): Promise<string | null> {
    const grant = await this.acquire(wardId);
    if (!grant) throw new Error(`ward ${wardId} is being edited at another desk`);

    try {
      const opened = await this.db.query<{ free_beds: string[] }>(
        'UPDATE wards SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING free_beds',
        [wardId, grant.fence],
      );
      if (opened.rowCount !== 1) throw new Error(`grant ${grant.fence} for ward ${wardId} is out of date`);

      const bed = await this.rules.choose(patientId, opened.rows[0].free_beds);
      if (bed === null) return null;

      // bed_assignments has a unique index on patient_id for stays not yet ended.
      const written = await this.db.query(
        `WITH taken AS (
           UPDATE wards SET free_beds = array_remove(free_beds, $3)
            WHERE id = $1 AND fence = $2 AND $3 = ANY(free_beds)
           RETURNING id
         )
         INSERT INTO bed_assignments (ward_id, bed, patient_id)
         SELECT id, $3, $4 FROM taken`,
        [wardId, grant.fence, bed, patientId],
      );
      if (written.rowCount !== 1) throw new Error(`ward ${wardId} was taken over, nothing was assigned`);

      this.log.info('bed assigned', { wardId, bed, fence: grant.fence });
      return bed;
    } finally {
      await this.release(grant);
    }
  }

  private async acquire(wardId: string): Promise<Grant | null> {
    const key = `{ward:${wardId}}:lock`;
    const token = randomUUID();
    const giveUpAt = performance.now() + WAIT_MS;
    do {
      const fence = Number(await this.redis.eval(ACQUIRE, 2, key, `{ward:${wardId}}:fence`, token, TTL_MS));
      if (fence > 0) return { key, token, fence };
      await sleep(80 + Math.random() * 120);
    } while (performance.now() < giveUpAt);
    return null;
  }

  private async release(grant: Grant): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, grant.key, grant.token);
    } catch (err) {
      this.log.warn('release failed, the lock runs out by itself', { key: grant.key, err });
    }
  }
}
