import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';

const urls = (process.env.LOCK_REDIS_URLS ?? '').split(',').filter(Boolean);
if (urls.length < 3 || urls.length % 2 === 0) {
  throw new Error('LOCK_REDIS_URLS needs an odd number of independent instances, three at least');
}

const clients = urls.map((url) => {
  const client = new Redis(url, { commandTimeout: 400, maxRetriesPerRequest: 1 });
  client.on('error', (err) => console.warn('lock redis', err.message));
  return client;
});

const redlock = new Redlock(clients, {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 200,
  retryJitter: 100,
  // Starts to extend when ten seconds are left.
  automaticExtensionThreshold: 10_000,
});

redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return; // another worker compacts this book
  console.error('redlock', err);
});

const LEASE_MS = 30_000;

/**
 * @typedef {object} Segment
 * @property {string} id
 * @property {string[]} entries
 */

/**
 * @typedef {object} SegmentStore
 * @property {(book: string) => Promise<string[]>} closedSegments
 * @property {(id: string) => Promise<Segment>} read
 * @property {(book: string, merged: Segment, replaced: string[]) => Promise<void>} replace
 */

/**
 * @param {Segment[]} segments
 * @returns {Segment}
 */
function merge(segments) {
  const entries = new Set(segments.flatMap((segment) => segment.entries));
  return { id: segments.map((s) => s.id).join('+'), entries: [...entries] };
}

/**
 * Merges the closed segments of a book pairwise. May take many minutes; the
 * lock is extended in the background for as long as it does.
 *
 * @param {SegmentStore} store
 * @param {string} book
 */
export async function compactBook(store, book) {
  return redlock.using([`compaction:${book}`], LEASE_MS, async (signal) => {
    const { aborted, error } = signal;
    const pending = await store.closedSegments(book);
    let merges = 0;

    while (pending.length >= 2) {
      const pair = pending.splice(0, 2);
      const segments = await Promise.all(pair.map((id) => store.read(id)));
      const merged = merge(segments);

      // Never replace segments when the lock could not be extended.
      if (aborted) {
        throw error ?? new Error(`compaction of ${book} lost its lock`);
      }
      await store.replace(book, merged, pair);
      merges += 1;
    }
    return merges;
  });
}

/**
 * @param {SegmentStore} store
 * @param {string[]} books
 */
export async function compactAll(store, books) {
  for (const book of books) {
    try {
      const merges = await compactBook(store, book);
      console.info(`${book}: ${merges} merges`);
    } catch (err) {
      console.warn(`${book}: not compacted`, err);
    }
  }
}

export const close = () => redlock.quit();
