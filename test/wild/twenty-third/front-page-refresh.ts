import { randomUUID } from 'node:crypto';
import type { Redis } from '@upstash/redis';

interface ArticleStore {
  topStories(edition: string): Promise<object[]>;
}

interface PageRenderer {
  frontPage(edition: string, stories: object[]): Promise<string>;
}

interface Cdn {
  put(path: string, html: string): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

interface Deps {
  redis: Redis;
  articles: ArticleStore;
  renderer: PageRenderer;
  cdn: Cdn;
  log: Logger;
}

const TTL_MS = 25_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

/**
 * Refreshes a front page; called by the scheduler once a minute and by the desk
 * after every publication, on whichever function instance is awake.
 *
 * The guard only spares us rendering the same page several times at once. It does
 * NOT promise that there is a single renderer: a render that outlives the TTL may
 * overlap with the next one, and nothing here prevents that. It need not be
 * prevented. A page is a pure function of the article store, nothing is counted,
 * sent or charged, and should an older page land on top of a newer one, the
 * scheduler replaces it within a minute. Do not use this guard for anything that
 * must happen only once.
 */
export async function refreshFrontPage(deps: Deps, edition: string): Promise<'refreshed' | 'skipped'> {
  const { redis, articles, renderer, cdn, log } = deps;
  const key = `front-page:${edition}:rendering`;
  const token = randomUUID();

  const reply = await redis.set(key, token, { nx: true, px: TTL_MS });
  if (reply !== 'OK') {
    log.info('front page is being rendered elsewhere', { edition });
    return 'skipped';
  }

  try {
    const stories = await articles.topStories(edition);
    const html = await renderer.frontPage(edition, stories);
    await cdn.put(`/${edition}/index.html`, html);
    log.info('front page refreshed', { edition, stories: stories.length });
    return 'refreshed';
  } finally {
    // Only our own mark is taken away, never that of a later renderer.
    try {
      await redis.eval(RELEASE, [key], [token]);
    } catch (err) {
      log.warn('rendering mark left to expire', { key, err });
    }
  }
}
