// getOrCompute() for serverless handlers: one caller fills a cold key, the rest wait for it.
// If the filler is slow or gone the others do the work themselves; nobody is ever stuck.
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const STORE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[1])
return 1`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const sleep = (ms) => new Promise((r) => setTimeout(r, ms));

/**
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} compute   a plain read, safe to run more than once
 * @param {{ ttl?: number, lockMs?: number, waitMs?: number }} [opts]  ttl in seconds
 * @returns {Promise<T>}
 */
export async function getOrCompute(name, compute, opts = {}) {
  const { ttl = 300, lockMs = 10_000, waitMs = 4_000 } = opts;
  const key = `{cache:${name}}:value`;
  const lock = `{cache:${name}}:lock`;
  const token = crypto.randomUUID();
  const giveUp = Date.now() + waitMs;

  for (;;) {
    let hit;
    let won;
    try {
      hit = await redis.get(key);
      if (hit) return hit.v;
      won = (await redis.set(lock, token, { nx: true, px: lockMs })) === 'OK';
    } catch (err) {
      console.warn(`cache ${name} unavailable:`, err.message);
      return compute();
    }

    if (won) return fill();
    if (Date.now() > giveUp) return compute();
    await sleep(60 + Math.random() * 90);
  }

  async function fill() {
    let value;
    try {
      // someone may have stored it between our read and our lock
      const again = await redis.get(key).catch(() => null);
      if (again) {
        await drop();
        return again.v;
      }
      value = await compute();
    } catch (err) {
      await drop();
      throw err;
    }
    try {
      // only stored while the lock is still ours: a slow run must not replace a newer value
      await redis.eval(STORE, [lock, key], [token, JSON.stringify({ v: value }), String(ttl)]);
    } catch (err) {
      console.warn(`cache ${name} not stored:`, err.message);
    }
    return value;
  }

  function drop() {
    return redis.eval(DROP, [lock], [token]).catch((err) => {
      console.warn(`cache ${name} lock left to expire:`, err.message);
    });
  }
}

export default getOrCompute;
