import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const TTL = 60_000;
const WORK_LIMIT = 25_000;

const READ_ENTER = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const WRITE_ENTER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`;

const WRITE_LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** @param {import('redis').RedisClientType} redis */
export function rwLock(redis, name) {
  const writer = `{rw:${name}}:writer`;
  const readers = `{rw:${name}}:readers`;

  async function enter(script, id, waitMs) {
    const until = Date.now() + waitMs;
    for (;;) {
      const ok = await redis.eval(script, { keys: [writer, readers], arguments: [id, String(TTL)] });
      if (ok === 1) return;
      if (Date.now() > until) throw new Error(`${name}: lock wait timed out`);
      await sleep(50 + Math.random() * 100);
    }
  }

  return {
    async read(fn, waitMs = 10_000) {
      const id = randomUUID();
      await enter(READ_ENTER, id, waitMs);
      try {
        return await fn();
      } finally {
        await redis.zRem(readers, id);
      }
    },
    async write(fn, waitMs = 30_000) {
      const id = randomUUID();
      await enter(WRITE_ENTER, id, waitMs);
      try {
        return await fn();
      } finally {
        await redis.eval(WRITE_LEAVE, { keys: [writer], arguments: [id] });
      }
    },
  };
}

export function bundleStore(redis, bucket) {
  const lock = rwLock(redis, 'config-bundle');
  return {
    load: () =>
      lock.read(async () => {
        const signal = AbortSignal.timeout(WORK_LIMIT);
        const manifest = JSON.parse(await bucket.getText('manifest.json', { signal }));
        return Promise.all(manifest.files.map((file) => bucket.getText(`${manifest.version}/${file}`, { signal })));
      }),
    publish: (files) =>
      lock.write(async () => {
        const signal = AbortSignal.timeout(WORK_LIMIT);
        const previous = JSON.parse(await bucket.getText('manifest.json', { signal }));
        const version = randomUUID();
        for (const [file, text] of Object.entries(files)) {
          await bucket.putText(`${version}/${file}`, text, { signal });
        }
        const manifest = JSON.stringify({ version, files: Object.keys(files) });
        await bucket.putText('manifest.json', manifest, { signal });
        for (const file of previous.files) {
          await bucket.remove(`${previous.version}/${file}`, { signal });
        }
      }),
  };
}
