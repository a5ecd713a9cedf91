import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

type Options = {
  /** how long a value is served */
  freshMs: number;
  /** how long one loader may keep the others waiting */
  loadMs?: number;
};

type Box<T> = { v: T };

const valueKey = (name: string) => `cache:{${name}}:value`;
const loadKey = (name: string) => `cache:{${name}}:loading`;
const pause = (ms: number) => new Promise((r) => setTimeout(r, ms));

// Store the value only while the load is still the current one, and end the load
// in the same step.
const PUBLISH = `
if redis.call("GET", KEYS[2]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3])
redis.call("DEL", KEYS[2])
return 1`;

const GIVE_UP = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

/**
 * Read-through cache that keeps a cold key from sending every visitor to the
 * database. Usually one caller loads and the rest wait for it. If that caller is
 * slow or gone, the others load for themselves: loads may run twice, answers are
 * never missing. A load that was overtaken (by `forget` or by a newer load) is
 * returned to its own caller and not stored.
 */
export async function cached<T>(name: string, load: () => Promise<T>, options: Options): Promise<T> {
  const loadMs = options.loadMs ?? 10_000;

  const hit = await redis.get<Box<T>>(valueKey(name));
  if (hit !== null) return hit.v;

  const token = crypto.randomUUID();
  const first = await redis.set(loadKey(name), token, { nx: true, px: loadMs });

  if (first === 'OK') {
    try {
      const v = await load();
      await redis.eval(
        PUBLISH,
        [valueKey(name), loadKey(name)],
        [token, JSON.stringify({ v }), String(options.freshMs)],
      );
      return v;
    } catch (err) {
      await redis.eval(GIVE_UP, [loadKey(name)], [token]).catch(() => {});
      throw err;
    }
  }

  const waitUntil = Date.now() + loadMs;
  while (Date.now() < waitUntil) {
    await pause(100);
    const box = await redis.get<Box<T>>(valueKey(name));
    if (box !== null) return box.v;
  }
  return load();
}

/** Drops the value, and disowns a load that started before the change. */
export async function forget(name: string): Promise<void> {
  await redis.del(valueKey(name), loadKey(name));
}
