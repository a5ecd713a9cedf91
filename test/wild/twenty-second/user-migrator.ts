import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

interface UserStore {
  /** Users after the cursor, in id order. */
  batchAfter(cursor: string, size: number, signal: AbortSignal): Promise<{ id: string }[]>;
  convert(users: { id: string }[], signal: AbortSignal): Promise<void>;
}

const KEY = 'migration:users-v2';
const LEASE_MS = 45_000;
const MARGIN_MS = 8_000;
const BATCH = 500;

// Prolongs the lease and publishes how far we are (the admin page reads the key).
const BEAT = `
local raw = redis.call('GET', KEYS[1])
if not raw or cjson.decode(raw).token ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[1], ARGV[3])
return 1`;

const END = `
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw).token == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Converts all users, batch after batch. Meant to be started on every instance
 * at deploy time: one of them does the work, the others return null.
 */
export async function migrateUsers(redis: Client, store: UserStore): Promise<number | null> {
  const token = randomUUID();
  const progress = { converted: 0, cursor: '' };
  const state = () => JSON.stringify({ token, host: hostname(), ...progress });

  const sentAt = performance.now();
  const reply = await redis.set(KEY, state(), { NX: true, PX: LEASE_MS });
  if (reply !== 'OK') return null;

  const lost = new AbortController();
  let finished = false;
  let guard: NodeJS.Timeout | undefined;
  const guardFrom = (since: number) => {
    clearTimeout(guard);
    const left = since + LEASE_MS - MARGIN_MS - performance.now();
    guard = setTimeout(() => lost.abort(new Error('no heartbeat in time')), Math.max(0, left));
  };
  guardFrom(sentAt);

  const beat = async () => {
    const since = performance.now();
    const alive = await redis.eval(BEAT, {
      keys: [KEY],
      arguments: [token, String(LEASE_MS), state()],
    });
    if (finished) return;
    if (alive !== 1) throw new Error('migration lock is gone');
    guardFrom(since);
  };
  const timer = setInterval(() => {
    beat().catch((err) => lost.abort(err));
  }, LEASE_MS / 4);

  try {
    for (;;) {
      lost.signal.throwIfAborted();
      const users = await store.batchAfter(progress.cursor, BATCH, lost.signal);
      if (users.length === 0) return progress.converted;
      lost.signal.throwIfAborted();
      await store.convert(users, lost.signal);
      progress.converted += users.length;
      progress.cursor = users.at(-1)!.id;
    }
  } finally {
    finished = true;
    clearInterval(timer);
    clearTimeout(guard);
    await redis.eval(END, { keys: [KEY], arguments: [token] }).catch((err) => {
      console.warn('migration lock not removed', err);
    });
  }
}
