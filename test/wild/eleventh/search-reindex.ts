import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export class TimeoutError extends Error {}

function timeout(ms: number, what: string) {
  let timer: NodeJS.Timeout | undefined;
  const promise = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`${what} took longer than ${ms} ms`)), Math.max(0, ms));
  });
  return { promise, clear: () => clearTimeout(timer) };
}

/**
 * Runs `work` exclusively. It gets 90 % of the TTL; after that the call fails, so the
 * lock never runs out under the work.
 */
export async function exclusively<T>(
  redis: Redis,
  name: string,
  ttlMs: number,
  work: () => Promise<T>,
): Promise<T | null> {
  const key = `exclusive:${name}`;
  const token = randomBytes(16).toString('base64url');
  const started = performance.now();

  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;

  const limit = timeout(ttlMs * 0.9 - (performance.now() - started), name);
  try {
    return await Promise.race([work(), limit.promise]);
  } finally {
    limit.clear();
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn(`release of ${key}`, err));
  }
}

export interface SearchIndex {
  create(name: string): Promise<void>;
  bulk(name: string, docs: object[]): Promise<void>;
  switchAlias(alias: string, name: string): Promise<void>;
}
export interface Articles {
  batches(): AsyncIterable<object[]>;
}

/** Builds articles_new and points the alias at it. Called by the admin UI and every night. */
export async function reindexArticles(redis: Redis, index: SearchIndex, articles: Articles) {
  const count = await exclusively(redis, 'reindex:articles', 10 * 60_000, async () => {
    let n = 0;
    await index.create('articles_new');
    for await (const docs of articles.batches()) {
      await index.bulk('articles_new', docs);
      n += docs.length;
    }
    await index.switchAlias('articles', 'articles_new');
    return n;
  });
  return count === null ? { started: false } : { started: true, count };
}
