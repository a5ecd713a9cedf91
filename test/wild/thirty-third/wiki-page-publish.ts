import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

type Redis = Pick<RedisClientType, 'set' | 'eval'>;

const TTL = 45_000;
const WORK_LIMIT = 30_000;

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

export class PageLock implements AsyncDisposable {
  readonly signal: AbortSignal;
  readonly #redis: Redis;
  readonly #key: string;
  readonly #token: string;

  constructor(redis: Redis, key: string, token: string, signal: AbortSignal) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.signal = signal;
  }

  static async acquire(redis: Redis, slug: string, waitMs = 5_000): Promise<PageLock | null> {
    const key = `wiki:page:${slug}:lock`;
    const giveUpAt = Date.now() + waitMs;
    do {
      const token = randomUUID();
      // the clock starts before the command leaves, so it never runs longer than the key lives
      const signal = AbortSignal.timeout(WORK_LIMIT);
      if ((await redis.set(key, token, { NX: true, PX: TTL })) === 'OK') {
        return new PageLock(redis, key, token, signal);
      }
      await delay(100 + Math.random() * 100);
    } while (Date.now() < giveUpAt);
    return null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#redis.eval(UNLOCK, { keys: [this.#key], arguments: [this.#token] });
    } catch (err) {
      console.warn(`could not unlock ${this.#key}, it expires within ${TTL} ms`, err);
    }
  }
}

export interface Draft {
  id: string;
  markdown: string;
  author: string;
}

export interface WikiRepo {
  draft(slug: string, opts: { signal: AbortSignal }): Promise<Draft | null>;
  latestRevision(slug: string, opts: { signal: AbortSignal }): Promise<number>;
  saveRevision(
    slug: string,
    revision: { number: number; html: string; author: string },
    opts: { signal: AbortSignal },
  ): Promise<void>;
  dropDraft(draftId: string, opts: { signal: AbortSignal }): Promise<void>;
}

export type PublishResult = { status: 'published'; revision: number } | { status: 'busy' | 'no-draft' };

export async function publishPage(redis: Redis, repo: WikiRepo, slug: string): Promise<PublishResult> {
  await using lock = await PageLock.acquire(redis, slug);
  if (lock === null) return { status: 'busy' };
  const { signal } = lock;

  const draft = await repo.draft(slug, { signal });
  if (draft === null) return { status: 'no-draft' };

  const rendered = await fetch(`${process.env.RENDERER_URL}/render`, {
    method: 'POST',
    headers: { 'content-type': 'text/markdown' },
    body: draft.markdown,
    signal,
  });
  if (!rendered.ok) throw new Error(`renderer answered ${rendered.status}`);
  const html = await rendered.text();

  const number = (await repo.latestRevision(slug, { signal })) + 1;
  signal.throwIfAborted();
  await repo.saveRevision(slug, { number, html, author: draft.author }, { signal });
  await repo.dropDraft(draft.id, { signal });
  return { status: 'published', revision: number };
}
