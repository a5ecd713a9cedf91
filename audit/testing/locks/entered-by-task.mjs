import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** May be entered again by what its own work calls, and by nothing else. */
export function mutexOn(redis) {
  const entered = new AsyncLocalStorage();
  return async function exclusively(name, work) {
    const key = `mutex:${name}`;
    const mine = entered.getStore() ?? [];
    if (mine.includes(key)) return await work();
    const token = randomUUID();
    if ((await redis.set(key, token, 'PX', 9_000, 'NX')) !== 'OK') throw new Error(`${name} is taken`);
    try {
      return await entered.run([...mine, key], work);
    } finally {
      await redis.eval(RELEASE, 1, key, token);
    }
  };
}
