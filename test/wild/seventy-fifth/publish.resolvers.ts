import { GraphQLError } from 'graphql';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { renderSite } from '../render';

const redis = new Redis(process.env.REDIS_URL!);

const LOCK_MS = 15_000;

redis.defineCommand('unlockIfMine', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
});

declare module 'ioredis' {
  interface RedisCommander<Context> {
    unlockIfMine(key: string, token: string): Promise<number>;
  }
}

interface Held {
  /** The fencing token for what is written under this lock. */
  fence(): Promise<number>;
  release(): Promise<void>;
}

/**
 * Lock with a fencing token (see Kleppmann, "How to do distributed locking"): the token
 * only ever grows, and the database refuses a write that carries an older one. Rendering
 * a big site can take longer than LOCK_MS, that is what the token is for.
 */
async function lockSite(siteId: string): Promise<Held> {
  const key = `site:${siteId}:lock`;
  const token = randomUUID();
  let fence: Promise<number> | undefined;

  for (let attempt = 0; attempt < 15; attempt++) {
    const got = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    if (got === 'OK') {
      return {
        // many publishes end early because nothing changed, they need no number
        fence: () => (fence ??= redis.incr(`site:${siteId}:fence`)),
        release: async () => {
          await redis.unlockIfMine(key, token).catch(() => 0);
        },
      };
    }
    await new Promise((r) => setTimeout(r, 150 + Math.random() * 150));
  }
  throw new GraphQLError('The site is being published, please try again.', { extensions: { code: 'SITE_BUSY' } });
}

interface Ctx {
  db: Pool;
  userId: string;
}

export const publishResolvers = {
  Query: {
    publishedSite: async (_: unknown, { id }: { id: string }, { db }: Ctx) => {
      const { rows } = await db.query('select site_id, html, published_at from published_sites where site_id = $1', [id]);
      return rows[0] ?? null;
    },
  },

  Mutation: {
    publishSite: async (_: unknown, { id }: { id: string }, { db, userId }: Ctx) => {
      const site = await db.query('select id from sites where id = $1 and owner_id = $2', [id, userId]);
      if (site.rowCount === 0) throw new GraphQLError('No such site', { extensions: { code: 'NOT_FOUND' } });

      const held = await lockSite(id);
      try {
        const { rows: pages } = await db.query(
          'select slug, title, blocks, updated_at from pages where site_id = $1 order by slug',
          [id],
        );
        if (pages.length === 0) throw new GraphQLError('Nothing to publish');

        const html = await renderSite(pages);

        const saved = await db.query(
          `update published_sites set html = $2, fence = $3, published_at = now()
            where site_id = $1 and fence < $3
            returning site_id, html, published_at`,
          [id, html, await held.fence()],
        );
        if (saved.rowCount === 0) {
          throw new GraphQLError('A newer version is already online', { extensions: { code: 'CONFLICT' } });
        }
        return saved.rows[0];
      } finally {
        await held.release();
      }
    },
  },
};
