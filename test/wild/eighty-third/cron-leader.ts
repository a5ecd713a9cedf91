import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';

const LEASE = 15_000;
const MARGIN = 4_000;
const TICK = 1_000;
const KEY = 'cron:leader';

const CLAIM = `
local cur = redis.call('get', KEYS[1])
if cur == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
if cur then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const RESIGN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const redis = new Redis(process.env.REDIS_URL!, {
  commandTimeout: 2_000,
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
});
redis.on('error', (e) => console.error('redis', e.message));

const pool = new Pool({ statement_timeout: 2_000, query_timeout: 2_500, connectionTimeoutMillis: 1_000 });
pool.on('error', (e) => console.error('postgres', e.message));

class Leader {
  private readonly id = randomUUID();
  private validUntil = 0;

  async claim(): Promise<void> {
    const sent = performance.now();
    try {
      const ok = await redis.eval(CLAIM, 1, KEY, this.id, LEASE);
      this.validUntil = ok === 1 ? sent + LEASE - MARGIN : 0;
    } catch (err) {
      // keep whatever time is left from the last answer
      console.warn('claim failed', (err as Error).message);
    }
  }

  get active(): boolean {
    return performance.now() < this.validUntil;
  }

  async resign(): Promise<void> {
    this.validUntil = 0;
    await redis.eval(RESIGN, 1, KEY, this.id).catch(() => undefined);
  }
}

async function enqueueDue(): Promise<void> {
  // (schedule_id, due_at) is the primary key of cron_runs
  await pool.query(
    `with due as (
       insert into cron_runs (schedule_id, due_at)
       select id, next_at from schedules where next_at <= now()
       order by next_at limit 200
       on conflict do nothing
       returning schedule_id, due_at)
     update schedules s
        set next_at = due.due_at + s.every
       from due
      where s.id = due.schedule_id and s.next_at = due.due_at`,
  );
}

export async function run(stop: AbortSignal): Promise<void> {
  const me = new Leader();
  while (!stop.aborted) {
    await me.claim();
    if (me.active) {
      await enqueueDue().catch((e) => console.error('tick failed', e));
    }
    await sleep(TICK, undefined, { signal: stop }).catch(() => undefined);
  }
  await me.resign();
  await pool.end();
  redis.disconnect();
}
