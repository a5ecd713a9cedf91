import { randomUUID } from 'node:crypto';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** May be entered again, by whatever goes on in the process that has it. */
export function mutexOn(redis) {
  const depths = new Map();
  return async function exclusively(name, work) {
    const key = `mutex:${name}`;
    const token = randomUUID();
    const isEntered = depths.has(key);
    if (!isEntered && (await redis.set(key, token, 'PX', 9_000, 'NX')) !== 'OK') throw new Error(`${name} is taken`);
    depths.set(key, (depths.get(key) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = depths.get(key) - 1;
      if (left > 0) depths.set(key, left);
      else depths.delete(key);
      if (!isEntered) await redis.eval(RELEASE, 1, key, token);
    }
  };
}
