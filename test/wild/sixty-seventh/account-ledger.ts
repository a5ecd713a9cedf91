import crypto from 'crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';

// create table accounts (id text primary key, balance bigint not null, fence bigint not null default 0);

// Lock and fencing number come from one script, so numbers grow in lock order.
const LOCK = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

// After a Redis restart without its data the counter is behind the table.
const CATCH_UP = `
local cur = tonumber(redis.call('GET', KEYS[1]) or '0')
if cur < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return 1`;

export class Contended extends Error {}
export class Fenced extends Error {}

export class Ledger {
  constructor(
    private readonly redis: Redis,
    private readonly pg: Pool,
    private readonly ttlMs = 8_000,
  ) {}

  /**
   * Reads the balance, lets `decide` compute the new one (it may call slow
   * services), writes it. No lease renewal here: if `decide` takes longer than
   * the TTL somebody else claims the row and our write matches nothing.
   */
  async change(id: string, decide: (balance: bigint) => Promise<bigint>): Promise<bigint> {
    const lockKey = `ledger:{${id}}:lock`;
    const fenceKey = `ledger:{${id}}:fence`;
    const token = crypto.randomBytes(18).toString('base64');

    const fence = Number(await this.redis.eval(LOCK, 2, lockKey, fenceKey, token, this.ttlMs));
    if (fence === 0) throw new Contended(id);

    try {
      // Claiming raises the fence BEFORE we read. From here on a holder with a
      // smaller number cannot write any more, so what we read stays true.
      const claimed = await this.pg.query<{ balance: string }>(
        'update accounts set fence = $2 where id = $1 and fence < $2 returning balance',
        [id, fence],
      );
      if (claimed.rowCount === 0) {
        await this.catchUp(id, fenceKey);
        throw new Fenced(`${id}: claim ${fence} refused`);
      }

      const next = await decide(BigInt(claimed.rows[0].balance));

      const written = await this.pg.query(
        'update accounts set balance = $3 where id = $1 and fence = $2',
        [id, fence, next.toString()],
      );
      if (written.rowCount !== 1) throw new Fenced(`${id}: write ${fence} refused`);
      return next;
    } finally {
      await this.redis
        .eval(UNLOCK, 1, lockKey, token)
        .catch((err: Error) => console.warn(`ledger: unlock ${id}: ${err.message}`));
    }
  }

  private async catchUp(id: string, fenceKey: string) {
    const { rows } = await this.pg.query<{ fence: string }>('select fence from accounts where id = $1', [id]);
    if (rows.length === 0) throw new Error(`no account ${id}`);
    await this.redis.eval(CATCH_UP, 1, fenceKey, rows[0].fence);
  }
}

export async function changeWithRetry(
  ledger: Ledger,
  id: string,
  decide: (balance: bigint) => Promise<bigint>,
  attempts = 8,
): Promise<bigint> {
  for (let i = 1; ; i++) {
    try {
      return await ledger.change(id, decide);
    } catch (err) {
      // Both mean that nothing was written.
      const retryable = err instanceof Contended || err instanceof Fenced;
      if (!retryable || i === attempts) throw err;
      await new Promise((r) => setTimeout(r, 40 * i + Math.random() * 200));
    }
  }
}
