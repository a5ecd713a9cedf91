import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

/*
 * Revaluation of foreign currency accounts. The redis lock only keeps workers from stepping on each other's
 * toes; what keeps the ledger right is the fence column in postgres.
 * The fence counter never expires; that redis has AOF on and is not a cache.
 */

const ACQUIRE = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 0
end
return redis.call('INCR', KEYS[2])
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export interface Grant {
  accountId: string;
  owner: string;
  fence: number;
}

export interface Pg {
  query<R>(sql: string, params: unknown[]): Promise<{ rowCount: number; rows: R[] }>;
}

export class StaleFence extends Error {
  constructor(grant: Grant) {
    super(`fence ${grant.fence} of account ${grant.accountId} has been overtaken`);
    this.name = 'StaleFence';
  }
}

export class LedgerLock {
  constructor(
    private readonly redis: Redis,
    private readonly ttlMs = 10_000,
  ) {}

  async tryAcquire(accountId: string): Promise<Grant | null> {
    const owner = randomUUID();
    const keys = [`{ledger:${accountId}}:lock`, `{ledger:${accountId}}:fence`];
    const fence = Number(await this.redis.eval(ACQUIRE, 2, ...keys, owner, this.ttlMs));
    return fence > 0 ? { accountId, owner, fence } : null;
  }

  async release(grant: Grant): Promise<void> {
    await this.redis.eval(RELEASE, 1, `{ledger:${grant.accountId}}:lock`, grant.owner);
  }
}

export class Revaluer {
  constructor(
    private readonly lock: LedgerLock,
    private readonly pg: Pg,
  ) {}

  async revalue(accountId: string, compute: (balance: number) => Promise<number>): Promise<boolean> {
    const grant = await this.lock.tryAcquire(accountId);
    if (!grant) return false;

    try {
      const balance = await this.enter(grant);
      const revalued = await compute(balance); // asks the pricing service, slow now and then
      await this.write(grant, revalued);
      return true;
    } finally {
      await this.lock.release(grant).catch((err) => console.warn('ledger release', accountId, err));
    }
  }

  // Raises the fence and reads in one statement: from here on nobody with an older one can write.
  private async enter(grant: Grant): Promise<number> {
    const res = await this.pg.query<{ balance: string }>(
      'UPDATE ledger SET fence = $2 WHERE account_id = $1 AND fence < $2 RETURNING balance',
      [grant.accountId, grant.fence],
    );
    if (res.rowCount !== 1) throw new StaleFence(grant);
    return Number(res.rows[0].balance);
  }

  private async write(grant: Grant, balance: number): Promise<void> {
    const res = await this.pg.query(
      'UPDATE ledger SET balance = $3 WHERE account_id = $1 AND fence = $2',
      [grant.accountId, grant.fence, balance],
    );
    if (res.rowCount !== 1) throw new StaleFence(grant);
  }
}
