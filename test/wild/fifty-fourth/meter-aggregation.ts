import Redis from 'ioredis';
import cron from 'node-cron';
import { Pool } from 'pg';
import { ulid } from 'ulid';
import pino from 'pino';

const log = pino({ name: 'meter-aggregation' });

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

interface Lease {
  resource: string;
  token: string;
  validUntil: number;
}

export class QuorumLock {
  private readonly nodes: Redis[];

  constructor(urls: string[]) {
    this.nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: 200,
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        autoResendUnfulfilledCommands: false,
      });
      node.on('error', (err) => log.debug({ url, message: err.message }, 'node'));
      return node;
    });
  }

  async acquire(resource: string, ttlMs: number): Promise<Lease | null> {
    const token = ulid();
    const startedAt = Date.now();
    const online = this.nodes.filter((n) => n.status === 'ready');
    const votes = await Promise.all(online.map((n) => this.vote(n, resource, token, ttlMs)));
    const granted = votes.filter(Boolean).length;
    const needed = Math.floor(online.length / 2) + 1;

    const drift = Math.round(ttlMs * 0.01) + 2;
    const validUntil = startedAt + ttlMs - drift;
    const lease = { resource, token, validUntil };
    if (granted >= needed && Date.now() < validUntil) {
      log.info({ resource, granted, needed }, 'lease granted');
      return lease;
    }
    await this.release(lease);
    return null;
  }

  async release({ resource, token }: Lease): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, resource, token)));
  }

  private async vote(node: Redis, resource: string, token: string, ttlMs: number): Promise<boolean> {
    try {
      return (await node.set(resource, token, 'PX', ttlMs, 'NX')) === 'OK';
    } catch {
      return false;
    }
  }
}

const lock = new QuorumLock((process.env.LOCK_NODES ?? '').split(',').filter(Boolean));
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 4_000,
  query_timeout: 4_500,
});

async function aggregateFeeder(feeder: string): Promise<void> {
  const client = await pool.connect();
  let failed: Error | undefined;
  try {
    await client.query('begin');
    const { rows } = await client.query(
      `select array_agg(id) as ids, meter, day, sum(wh)::bigint as wh from readings
        where feeder = $1 and not counted group by meter, day order by meter, day limit 400`,
      [feeder],
    );
    await client.query(
      `update daily_usage u set wh = u.wh + r.wh
         from unnest($1::text[], $2::date[], $3::bigint[]) as r(meter, day, wh)
        where u.meter = r.meter and u.day = r.day`,
      [rows.map((r) => r.meter), rows.map((r) => r.day), rows.map((r) => r.wh)],
    );
    await client.query('update readings set counted = true where id = any($1::bigint[])', [rows.flatMap((r) => r.ids)]);
    await client.query('commit');
  } catch (err) {
    failed = err as Error;
    throw err;
  } finally {
    client.release(failed);
  }
}

cron.schedule('*/5 * * * *', async () => {
  try {
    const lease = await lock.acquire('meters:aggregation', 120_000);
    if (!lease) return;
    try {
      const { rows } = await pool.query('select distinct feeder from readings where not counted limit 50');
      for (const { feeder } of rows) {
        if (lease.validUntil - Date.now() < 30_000) break; // next run goes on from here
        await aggregateFeeder(feeder);
      }
    } finally {
      await lock.release(lease);
    }
  } catch (err) {
    log.error({ err }, 'aggregation failed');
  }
});
