import Client from 'ioredis';
import Redlock, { ExecutionError, Lock } from 'redlock5';
import { feedDuration, feedRows } from './metrics';
import { db } from '../db';

const LOCK_TTL = 30_000;
const HEARTBEAT = 10_000;

export function createRedlock(urls = (process.env.REDLOCK_URLS ?? 'redis://localhost:6379').split(',')) {
  const redlock = new Redlock(
    urls.map((u) => new Client(u, { commandTimeout: 1_000, maxRetriesPerRequest: 1 })),
    { retryCount: 3, retryDelay: 400, retryJitter: 200 },
  );
  redlock.on('error', (e) => console.debug('redlock', e.message));
  return redlock;
}

/** Keeps the lock alive while a long import is running. */
class Heartbeat {
  private timer?: NodeJS.Timeout;
  private readonly controller = new AbortController();

  constructor(private readonly lock: Lock, private readonly ttl: number) {}

  get signal() {
    return this.controller.signal;
  }

  start() {
    this.timer = setInterval(() => void this.beat(), HEARTBEAT);
    return this;
  }

  stop() {
    clearInterval(this.timer);
  }

  private async beat() {
    try {
      await this.lock.extend(this.ttl);
    } catch (err) {
      // We can no longer rely on the lock: stop the import at the next batch.
      this.stop();
      this.controller.abort(err);
    }
  }
}

export interface Feed {
  id: string;
  batches(): AsyncIterable<Array<{ externalId: string; payload: unknown }>>;
}

export type ImportResult = { status: 'imported'; rows: number } | { status: 'busy' };

/**
 * Imports a supplier feed. Feeds take between a few seconds and half an hour,
 * so the lock is short and is extended by a heartbeat.
 */
export async function importFeed(redlock: Redlock, feed: Feed): Promise<ImportResult> {
  let lock: Lock;
  try {
    lock = await redlock.acquire([`feed:${feed.id}`], LOCK_TTL);
  } catch (err) {
    if (err instanceof ExecutionError) return { status: 'busy' };
    throw err;
  }

  const heartbeat = new Heartbeat(lock, LOCK_TTL).start();
  const done = feedDuration.startTimer({ feed: feed.id });
  let rows = 0;
  try {
    for await (const batch of feed.batches()) {
      heartbeat.signal.throwIfAborted();
      // Upsert by (feed, external_id): replaying a batch changes nothing.
      await db('feed_items')
        .insert(batch.map((b) => ({ feed: feed.id, external_id: b.externalId, payload: b.payload })))
        .onConflict(['feed', 'external_id'])
        .merge()
        .timeout(5_000);
      rows += batch.length;
      feedRows.inc({ feed: feed.id }, batch.length);
    }
    heartbeat.signal.throwIfAborted();
    return { status: 'imported', rows };
  } finally {
    heartbeat.stop();
    done();
    await lock.release().catch((err) => console.warn('release feed:%s: %s', feed.id, err.message));
  }
}
