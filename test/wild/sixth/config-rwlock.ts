import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
client.on('error', (err) => console.error('redis:', err.message));

let connecting: Promise<unknown> | undefined;
const connect = () => (connecting ??= client.connect());

const TTL = 10_000;

const READ_LOCK = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. now)
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const WRITE_LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0`;

const READ_UNLOCK = `return redis.call('ZREM', KEYS[2], ARGV[1])`;

const WRITE_UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const SCRIPTS = {
  read: { lock: READ_LOCK, unlock: READ_UNLOCK },
  write: { lock: WRITE_LOCK, unlock: WRITE_UNLOCK },
};

async function locked<T>(mode: 'read' | 'write', name: string, fn: () => Promise<T>, timeout: number): Promise<T> {
  await connect();
  const keys = [`{config:${name}}:writer`, `{config:${name}}:readers`];
  const token = randomUUID();
  const giveUp = Date.now() + timeout;

  while ((await client.eval(SCRIPTS[mode].lock, { keys, arguments: [token, String(TTL)] })) !== 1) {
    if (Date.now() > giveUp) throw new Error(`config ${name}: no ${mode} lock within ${timeout} ms`);
    await sleep(25 + Math.random() * 50);
  }

  try {
    return await fn();
  } finally {
    await client.eval(SCRIPTS[mode].unlock, { keys, arguments: [token] });
  }
}

/** Any number of readers at a time, unless somebody writes. `fn` has ten seconds. */
export const withReadLock = <T>(name: string, fn: () => Promise<T>, timeout = 5_000): Promise<T> =>
  locked('read', name, fn, timeout);

/** One writer, and nobody else. `fn` has ten seconds. */
export const withWriteLock = <T>(name: string, fn: () => Promise<T>, timeout = 5_000): Promise<T> =>
  locked('write', name, fn, timeout);
