import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import Redlock from 'redlock4';
import { contacts } from './contacts';
import { logger } from './logger';

const LOCK_RESOURCE = 'locks:crm-sync';
const LOCK_TTL = 5_000;

// The CRM allows four requests per second for the whole account,
// so only one worker may sync at any time.
const REQUEST_INTERVAL = 250;
const PAGE_SIZE = 100;

const redis = new Redis(process.env.REDIS_URL as string);
redis.on('error', (err) => logger.error({ err }, 'redis'));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 0,
});
redlock.on('clientError', (err: Error) => logger.error({ err }, 'redlock'));

interface Page {
  items: Array<{ id: string; email: string; updatedAt: string }>;
  next?: string;
}

async function fetchPage(cursor?: string): Promise<Page> {
  const url = new URL('/v2/contacts', process.env.CRM_URL);
  url.searchParams.set('limit', String(PAGE_SIZE));
  if (cursor) url.searchParams.set('cursor', cursor);
  const res = await fetch(url, {
    headers: { authorization: `Bearer ${process.env.CRM_TOKEN}` },
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`CRM responded with ${res.status}`);
  return (await res.json()) as Page;
}

export async function syncContacts(): Promise<number> {
  let lock: Redlock.Lock;
  try {
    lock = await redlock.lock(LOCK_RESOURCE, LOCK_TTL);
  } catch (err) {
    logger.info({ err }, 'CRM sync is running elsewhere');
    return 0;
  }

  let count = 0;
  try {
    // about 40,000 contacts at the moment
    let cursor: string | undefined;
    do {
      const page = await fetchPage(cursor);
      for (const item of page.items) {
        await contacts.upsert(item);
        count++;
      }
      cursor = page.next;
      await sleep(REQUEST_INTERVAL);
    } while (cursor);

    logger.info({ count }, 'CRM sync finished');
    return count;
  } finally {
    await lock.unlock().catch((err: Error) => logger.warn({ err }, 'unlock failed'));
  }
}
