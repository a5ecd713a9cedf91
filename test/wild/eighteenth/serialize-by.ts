import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface SerializeOptions {
  ttlMs: number;
  waitMs: number;
}

async function release(client: RedisClient, key: string, token: string): Promise<void> {
  await client
    .eval(RELEASE, { keys: [key], arguments: [token] })
    .catch((err: unknown) => console.warn('release of %s failed, it will expire', key, err));
}

async function acquire(client: RedisClient, key: string, token: string, options: SerializeOptions): Promise<number> {
  const giveUpAt = performance.now() + options.waitMs;
  for (let delay = 50; ; delay = Math.min(delay * 2, 1_000)) {
    const sentAt = performance.now();
    let reply: unknown;
    try {
      reply = await client.set(key, token, { NX: true, PX: options.ttlMs });
    } catch (err) {
      await release(client, key, token);
      throw err;
    }
    if (reply === 'OK') return sentAt + options.ttlMs * 0.95;
    if (performance.now() + delay > giveUpAt) throw new Error(`gave up waiting for ${key}`);
    await sleep(delay * (0.5 + Math.random() / 2));
  }
}

/**
 * Wraps a function so that calls with the same key run one after the other, on all instances.
 * The wrapped function gets a signal that fires when the lock runs out under it.
 *
 *   const syncAccount = serializeBy(client, (id: string) => `account-sync:${id}`, doSync, { ttlMs: 60_000, waitMs: 90_000 });
 *   await syncAccount('acc_19');
 */
export function serializeBy<Args extends unknown[], Result>(
  client: RedisClient,
  keyOf: (...args: Args) => string,
  fn: (signal: AbortSignal, ...args: Args) => Promise<Result>,
  options: SerializeOptions,
): (...args: Args) => Promise<Result> {
  return async (...args: Args): Promise<Result> => {
    const key = `serialize:${keyOf(...args)}`;
    const token = randomUUID();
    const validUntil = await acquire(client, key, token, options);
    const lapse = new AbortController();
    const timer = setTimeout(
      () => lapse.abort(new Error(`${key} ran out`)),
      Math.max(0, validUntil - performance.now()),
    );
    try {
      if (performance.now() >= validUntil) throw new Error(`${key} was granted too late`);
      return fn(lapse.signal, ...args);
    } finally {
      clearTimeout(timer);
      await release(client, key, token);
    }
  };
}
