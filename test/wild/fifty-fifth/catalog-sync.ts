import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { fetch } from 'undici';

interface Partner {
  id: string;
  feedUrl: string;
}

interface FeedPage {
  items: { sku: string; title: string; priceCents: number }[];
  next: string | null;
}

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const REMOVE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class CatalogSync {
  constructor(
    private readonly redis: Redis,
    private readonly db: Knex, // acquireConnectionTimeout: 5 s
    private readonly log: Logger,
    private readonly ttlMs = 60_000,
  ) {}

  /** Called by a scheduler every minute for every partner, on all workers. */
  async sync(partner: Partner): Promise<number | 'skipped'> {
    const key = `catalog-sync:${partner.id}`;
    const token = randomUUID();
    let renewedAt = Date.now();

    const got = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    if (got !== 'OK') return 'skipped';

    const lost = new AbortController();
    const heartbeat = setInterval(async () => {
      const asked = Date.now();
      try {
        if ((await this.redis.eval(RENEW, 1, key, token, this.ttlMs)) === 1) {
          renewedAt = asked;
          return;
        }
        lost.abort(new Error(`${key} taken over`));
      } catch (err) {
        this.log.warn({ err, key }, 'heartbeat failed');
        if (Date.now() - renewedAt > this.ttlMs / 2) lost.abort(new Error(`${key} not renewed`));
      }
      if (lost.signal.aborted) clearInterval(heartbeat);
    }, this.ttlMs / 6);

    try {
      const items = await this.pull(partner, lost.signal, () => Date.now() - renewedAt < this.ttlMs / 2);
      clearInterval(heartbeat);
      await this.redis.eval(REMOVE, 1, key, token).catch((err) => this.log.warn({ err, key }, 'key not removed'));
      this.log.info({ partner: partner.id, items }, 'catalog synced');
      return items;
    } catch (err) {
      // Not removed on purpose: partners complain when we hammer a broken
      // feed. The key runs out within a minute and the next round tries again.
      this.log.error({ err, partner: partner.id }, 'catalog sync failed');
      throw err;
    }
  }

  private async pull(partner: Partner, signal: AbortSignal, fresh: () => boolean): Promise<number> {
    let url: string | null = partner.feedUrl;
    let count = 0;
    while (url) {
      const res = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(20_000)]) });
      if (!res.ok) throw new Error(`feed of ${partner.id} answered ${res.status}`);
      const page = (await res.json()) as FeedPage;

      signal.throwIfAborted();
      if (!fresh()) throw new Error('sync lock too old to write');
      if (page.items.length > 0) {
        await this.db('partner_items')
          .insert(page.items.map((i) => ({ partner_id: partner.id, sku: i.sku, title: i.title, price_cents: i.priceCents })))
          .onConflict(['partner_id', 'sku'])
          .merge()
          .timeout(10_000, { cancel: true });
      }
      count += page.items.length;
      url = page.next;
    }
    return count;
  }
}
