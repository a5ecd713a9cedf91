import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

// Needs Redis 7: the lock lives in a function library on the server.
const LIBRARY = `#!lua name=doclock

local function acquire(keys, args)
  if redis.call('SET', keys[1], args[1], 'NX', 'PX', args[2]) then
    return 1
  end
  return 0
end

local function release(keys, args)
  if redis.call('GET', keys[1]) == args[1] then
    return redis.call('DEL', keys[1])
  end
  return 0
end

redis.register_function('doclock_acquire', acquire)
redis.register_function('doclock_release', release)
`;

const libraries = new WeakMap<Redis, Promise<unknown>>();

function loadLibrary(redis: Redis): Promise<unknown> {
  let loaded = libraries.get(redis);
  if (!loaded) {
    loaded = redis.function('LOAD', 'REPLACE', LIBRARY);
    libraries.set(redis, loaded);
    loaded.catch(() => libraries.delete(redis));
  }
  return loaded;
}

export class DocumentLock implements AsyncDisposable {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #token: string;
  readonly #deadline: number;

  private constructor(redis: Redis, key: string, token: string, deadline: number) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#deadline = deadline;
  }

  /** Null when the document is being edited elsewhere. */
  static async acquire(redis: Redis, documentId: string, ttl = 10_000): Promise<DocumentLock | null> {
    await loadLibrary(redis);
    const key = `doc:${documentId}:lock`;
    const token = randomUUID();
    const deadline = performance.now() + ttl;
    const ok = await redis.fcall('doclock_acquire', 1, key, token, ttl);
    return ok === 1 ? new DocumentLock(redis, key, token, deadline) : null;
  }

  get held(): boolean {
    return performance.now() < this.#deadline;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#redis.fcall('doclock_release', 1, this.#key, this.#token);
  }
}

export interface Patch {
  apply(text: string): string;
}

export async function patchDocument(redis: Redis, id: string, patches: Patch[]): Promise<boolean> {
  await using lock = await DocumentLock.acquire(redis, id);
  if (!lock) return false;

  let text = (await redis.get(`doc:${id}`)) ?? '';
  for (const patch of patches) text = patch.apply(text);
  if (!lock.held) return false;
  await redis.set(`doc:${id}`, text);
  return true;
}
