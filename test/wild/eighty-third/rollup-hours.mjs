// Hourly usage rollup. Several ETL pods start this at minute 5; one does the work.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import pg from 'pg';

const LEASE_MS = 20_000;
const KEY = '{usage-rollup}:lease';
const SEQ = '{usage-rollup}:seq';

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;
const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const UPSERT = `
insert into usage_hourly (tenant_id, hour, requests, bytes, epoch)
select tenant_id, $1::timestamptz, count(*), coalesce(sum(bytes), 0), $2::bigint
  from usage_raw
 where at >= $1::timestamptz and at < $1::timestamptz + interval '1 hour'
 group by tenant_id
on conflict (tenant_id, hour) do update
   set requests = excluded.requests, bytes = excluded.bytes, epoch = excluded.epoch
 where usage_hourly.epoch <= excluded.epoch`;

async function keepAlive(redis, token, work, lost) {
  while (!work.aborted && !lost.signal.aborted) {
    await sleep(LEASE_MS / 4, undefined, { signal: work }).catch(() => {});
    if (work.aborted) return;
    try {
      const ok = await redis.eval(RENEW, { keys: [KEY], arguments: [token, String(LEASE_MS)] });
      if (!ok) lost.abort(new Error('rollup lease lost'));
    } catch (err) {
      lost.abort(err);
    }
  }
}

export async function rollup(hours) {
  const redis = await createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true })
    .on('error', (e) => console.error('redis', e.message))
    .connect();
  const db = new pg.Pool({ max: 1, statement_timeout: 60_000 });
  const token = randomUUID();
  try {
    const epoch = Number(await redis.eval(ACQUIRE, { keys: [KEY, SEQ], arguments: [token, String(LEASE_MS)] }));
    if (epoch === 0) return { ran: false };
    const done = new AbortController();
    const lost = new AbortController();
    const beat = keepAlive(redis, token, done.signal, lost);
    try {
      for (const hour of hours) {
        lost.signal.throwIfAborted();
        await db.query(UPSERT, [hour, epoch]);
      }
      return { ran: true, epoch };
    } finally {
      done.abort();
      await beat;
      await redis
        .eval(RELEASE, { keys: [KEY], arguments: [token] })
        .catch((e) => console.warn('lease left to expire', e.message));
    }
  } finally {
    await db.end();
    await redis.quit().catch(() => {});
  }
}
