import { createClient } from 'redis';

/*
 * For the old cluster, which cannot expire keys that are set with NX: the value says until when the lock holds, and who
 * finds one that is over takes it.
 */
const TAKE = `
local value = redis.call('GET', KEYS[1])
if value and tonumber(value) > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('stamp-lock', err));

export async function open() {
  if (!client.isOpen) await client.connect();
}

/** @returns {Promise<string | null>} the stamp, for `unlock` */
export async function lock(name, ttlMs = 8000) {
  const now = Date.now();
  const stamp = `${now + ttlMs}.${String(Math.floor(Math.random() * 1e9)).padStart(9, '0')}`;
  const taken = await client.eval(TAKE, { keys: [`stamp:${name}`], arguments: [String(now), stamp] });
  return taken === 1 ? stamp : null;
}

export async function unlock(name, stamp) {
  return (await client.eval(DROP, { keys: [`stamp:${name}`], arguments: [stamp] })) === 1;
}
