import Fastify from 'fastify';
import Redis from 'ioredis';
import { Pool } from 'pg';
import axios from 'axios';
import { v4 as uuid } from 'uuid';

const pool = new Pool({ connectionString: process.env.DATABASE_URL });
// appendfsync always, noeviction: the counter below never goes back
const redis = new Redis(process.env.LOCK_REDIS_URL!);

redis.defineCommand('fencedLock', {
  numberOfKeys: 2,
  lua: `
    if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      return redis.call('INCR', KEYS[2])
    end
    return 0`,
});
redis.defineCommand('fencedUnlock', {
  numberOfKeys: 1,
  lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
});

type FencedRedis = Redis & {
  fencedLock(lock: string, counter: string, token: string, ttl: number): Promise<number>;
  fencedUnlock(lock: string, token: string): Promise<number>;
};

export class Busy extends Error {}
export class Superseded extends Error {}

export class FencedMutex {
  constructor(private readonly client: FencedRedis, private readonly name: string, private readonly ttl = 30_000) {}

  async run<T>(work: (fence: number) => Promise<T>): Promise<T> {
    const token = uuid();
    const fence = await this.client.fencedLock(`{${this.name}}:lock`, `{${this.name}}:fence`, token, this.ttl);
    if (fence === 0) throw new Busy(this.name);
    try {
      return await work(fence);
    } finally {
      await this.client.fencedUnlock(`{${this.name}}:lock`, token).catch(() => undefined);
    }
  }
}

/**
 * Closes an accounting period and files its figures. Postings take a share lock on the
 * period row and are refused unless it is `open`, so the sums of a `closing` period stand.
 */
export async function closePeriod(periodId: string): Promise<{ reference: string }> {
  const mutex = new FencedMutex(redis as FencedRedis, `period:${periodId}`);
  return mutex.run(async (fence) => {
    const claimed = await pool.query(
      `update periods set status = 'closing', fence = $2
        where id = $1 and fence < $2 and status in ('open', 'closing')`,
      [periodId, fence],
    );
    if (claimed.rowCount !== 1) throw new Superseded(`period ${periodId} is closed or claimed by a later run`);

    const { rows } = await pool.query(
      `select account, sum(debit_cents) as debit, sum(credit_cents) as credit
         from postings where period_id = $1 group by account order by account`,
      [periodId],
    );

    const { data } = await axios.post(
      `${process.env.TAX_API}/filings`,
      { period: periodId, accounts: rows },
      { timeout: 20_000, headers: { 'idempotency-key': `period-${periodId}` } },
    );

    const closed = await pool.query(
      `update periods set status = 'closed', filing_ref = $3, closed_at = now()
        where id = $1 and fence = $2 and status = 'closing'`,
      [periodId, fence, data.reference],
    );
    if (closed.rowCount !== 1) throw new Superseded(`period ${periodId} was taken over`);
    return { reference: data.reference };
  });
}

const app = Fastify({ logger: true });

app.post<{ Params: { id: string } }>('/periods/:id/close', async (req, reply) => {
  try {
    return await closePeriod(req.params.id);
  } catch (err) {
    if (err instanceof Busy || err instanceof Superseded) return reply.code(409).send({ error: err.message });
    throw err;
  }
});

await app.listen({ port: 3000, host: '0.0.0.0' });
