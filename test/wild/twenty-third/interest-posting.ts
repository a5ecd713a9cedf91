import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

interface Db {
  query(sql: string, params: unknown[], opts: { timeoutMs: number }): Promise<{ rowCount: number }>;
}

interface ClosingBalances {
  /** Chunks of the frozen end-of-day snapshot, with the interest already worked out. */
  chunks(businessDate: string): AsyncIterable<Array<{ account_id: string; amount_cents: number }>>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

const TTL_MS = 90_000;
const CHUNK_TIMEOUT_MS = 25_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// One statement, thus one transaction: a balance moves only together with a ledger
// entry that was not there before.
const POST_CHUNK = `
WITH posted AS (
  INSERT INTO ledger_entries (account_id, business_date, kind, amount_cents)
  SELECT account_id, $2::date, 'interest', amount_cents
    FROM jsonb_to_recordset($1::jsonb) AS c(account_id uuid, amount_cents bigint)
  ON CONFLICT (account_id, business_date, kind) DO NOTHING
  RETURNING account_id, amount_cents
)
UPDATE accounts a
   SET balance_cents = a.balance_cents + p.amount_cents
  FROM posted p
 WHERE a.id = p.account_id`;

export class LeaseLostError extends Error {}

export class InterestPosting {
  private readonly redis: RedisClientType;
  private readonly db: Db;
  private readonly balances: ClosingBalances;
  private readonly log: Logger;

  constructor(redis: RedisClientType, db: Db, balances: ClosingBalances, log: Logger) {
    this.redis = redis;
    this.db = db;
    this.balances = balances;
    this.log = log;
  }

  /**
   * Posts the interest of a business date. The lease keeps two batch hosts from doing
   * the long run at once; it is extended before every chunk, and a chunk starts only
   * when it must end within what was granted. Posting an account again is a no-op by
   * the unique key of the ledger, so a run may be broken off and repeated anywhere.
   */
  async run(businessDate: string): Promise<'posted' | 'busy'> {
    const key = `eod:interest:${businessDate}`;
    const token = randomUUID();
    const reply = await this.redis.set(key, token, { NX: true, PX: TTL_MS });
    if (reply !== 'OK') return 'busy';

    let accounts = 0;
    try {
      for await (const chunk of this.balances.chunks(businessDate)) {
        await this.extend(key, token);
        const result = await this.db.query(POST_CHUNK, [JSON.stringify(chunk), businessDate], {
          timeoutMs: CHUNK_TIMEOUT_MS,
        });
        accounts += result.rowCount;
      }
      this.log.info('interest posted', { businessDate, accounts });
      return 'posted';
    } finally {
      await this.redis.eval(RELEASE, { keys: [key], arguments: [token] }).catch((err: unknown) => {
        this.log.warn('interest lease left to expire', { key, err });
      });
    }
  }

  private async extend(key: string, token: string): Promise<void> {
    const sentAt = performance.now();
    const extended = await this.redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL_MS)] });
    if (extended !== 1) throw new LeaseLostError(`lease ${key} is no longer ours`);
    if (performance.now() - sentAt > TTL_MS - 2 * CHUNK_TIMEOUT_MS) {
      throw new LeaseLostError(`extension of ${key} came back too late`);
    }
  }
}
