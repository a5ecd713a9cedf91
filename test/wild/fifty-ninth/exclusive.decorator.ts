import { Redis } from '@upstash/redis';
import { ulid } from 'ulid';
import { articles } from '../db/articles';
import { renderArticle } from '../render';
import { cdn } from '../cdn';
import { env } from '../env';

const redis = new Redis({ url: env.UPSTASH_REDIS_REST_URL, token: env.UPSTASH_REDIS_REST_TOKEN });

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class AlreadyRunningError extends Error {
  readonly status = 409;
  constructor(readonly key: string) {
    super(`${key} is already running`);
  }
}

interface ExclusiveOptions<A extends unknown[]> {
  /** what the lock is about, made from the arguments of the call */
  key: (...args: A) => string;
  ttlMs: number;
}

/**
 * Method decorator: at most one call per key at the same time, over all regions.
 *
 *   @Exclusive({ key: (id) => `publish:${id}`, ttlMs: 60_000 })
 */
export function Exclusive<A extends unknown[]>(opts: ExclusiveOptions<A>) {
  return function (_target: object, name: string, descriptor: PropertyDescriptor) {
    const original = descriptor.value as (...args: A) => Promise<unknown>;

    descriptor.value = async function (this: unknown, ...args: A) {
      const key = `excl:${opts.key(...args)}`;
      const token = ulid();

      const ok = await redis.set(key, token, { nx: true, px: opts.ttlMs });
      if (ok !== 'OK') throw new AlreadyRunningError(key);

      try {
        return original.apply(this, args);
      } finally {
        try {
          await redis.eval(UNLOCK, [key], [token]);
        } catch (err) {
          console.warn(`[exclusive] ${name}: unlock of ${key} failed`, err);
        }
      }
    };
    return descriptor;
  };
}

export class PublishingService {
  @Exclusive({ key: (articleId: string) => `publish:${articleId}`, ttlMs: 60_000 })
  async publish(articleId: string, editor: string) {
    const signal = AbortSignal.timeout(40_000); // well inside the ttl

    const draft = await articles.latestDraft(articleId, { signal });
    if (!draft) throw new Error(`article ${articleId} has no draft`);

    const html = await renderArticle(draft, { signal });
    await cdn.put(`/a/${draft.slug}/index.html`, html, { signal, cacheControl: 'max-age=30' });
    await articles.setLive(articleId, { revision: draft.revision, editor, at: new Date() }, { signal });

    return { slug: draft.slug, revision: draft.revision };
  }

  @Exclusive({ key: (articleId: string) => `publish:${articleId}`, ttlMs: 60_000 })
  async retract(articleId: string, reason: string) {
    const signal = AbortSignal.timeout(40_000);
    const live = await articles.live(articleId, { signal });
    if (!live) return null;
    await cdn.remove(`/a/${live.slug}/index.html`, { signal });
    await articles.setRetracted(articleId, { reason, at: new Date() }, { signal });
    return { slug: live.slug };
  }
}
