import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

type R = ReturnType<typeof createClient>;

const KEY = 'catalogue:import';
const TTL_MS = 10 * 60_000;

const REPORT = `
local v = redis.call('GET', KEYS[1])
if not v or cjson.decode(v).token ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`;

const FINISH = `
local v = redis.call('GET', KEYS[1])
if not v or cjson.decode(v).token ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

/**
 * Only one import at a time. The lock's value doubles as the progress bar of the admin page:
 * { token, host, done, total }
 */
export async function importCatalogue(
  redis: R,
  rows: AsyncIterable<Record<string, string>> & { total: number },
  upsert: (row: Record<string, string>) => Promise<void>,
): Promise<number | 'already running'> {
  const token = randomUUID();
  const state = { token, host: process.env.HOSTNAME ?? '?', done: 0, total: rows.total };
  const begin = performance.now();

  const got = await redis.set(KEY, JSON.stringify(state), { NX: true, PX: TTL_MS });
  if (got !== 'OK') return 'already running';

  try {
    for await (const row of rows) {
      if (performance.now() - begin > TTL_MS - 30_000) throw new Error('import window is over');
      await upsert(row);
      state.done++;
      if (state.done % 500 === 0) {
        const still = await redis.eval(REPORT, { keys: [KEY], arguments: [token, JSON.stringify(state)] });
        if (still !== 1) throw new Error('import was taken over');
      }
    }
    return state.done;
  } finally {
    await redis.eval(FINISH, { keys: [KEY], arguments: [token] });
  }
}

export async function importProgress(redis: R) {
  const v = await redis.get(KEY);
  if (!v) return null;
  const { token: _t, ...rest } = JSON.parse(v);
  return rest;
}
