import Redis from 'ioredis';
import Redlock, { ExecutionError, type Lock } from 'redlock5';
import { readOnixRecords, type OnixRecord } from './onix';
import { catalogue } from '../db';
import { logger } from './logger';

const LOCK_TTL = 30_000;
const EXTEND_EVERY = 10_000;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const redlock = new Redlock([redis], { retryCount: 0, driftFactor: 0.01 });
redlock.on('error', (err) => logger.debug({ err: err.message }, 'redlock'));

export interface ImportResult {
  status: 'imported' | 'busy';
  records: number;
}

async function lockPublisher(publisherId: string): Promise<Lock | null> {
  try {
    return await redlock.acquire([`onix:import:${publisherId}`], LOCK_TTL);
  } catch (err) {
    if (err instanceof ExecutionError) return null;
    throw err;
  }
}

/** Feeds of the big houses take about half an hour, so the lock is kept alive meanwhile. */
function keepAlive(lock: Lock): () => void {
  const timer = setInterval(() => {
    lock
      .extend(LOCK_TTL)
      .catch((err) => logger.warn({ err: err.message, resources: lock.resources }, 'could not extend lock'));
  }, EXTEND_EVERY);
  return () => clearInterval(timer);
}

async function apply(publisherId: string, record: OnixRecord): Promise<void> {
  switch (record.notificationType) {
    case 'delete':
      await catalogue.withdraw(publisherId, record.isbn);
      break;
    case 'update':
    case 'new':
      await catalogue.replaceTitle(publisherId, record);
      break;
    default:
      logger.info({ isbn: record.isbn, type: record.notificationType }, 'record skipped');
  }
}

/**
 * Applies one ONIX feed. Records have to go in in feed order (a withdrawal may be followed
 * by a re-issue of the same ISBN), so there must only ever be one import per publisher.
 */
export async function importFeed(publisherId: string, path: string): Promise<ImportResult> {
  const lock = await lockPublisher(publisherId);
  if (!lock) {
    logger.info({ publisherId }, 'import already running');
    return { status: 'busy', records: 0 };
  }

  const stop = keepAlive(lock);
  let records = 0;
  try {
    for await (const record of readOnixRecords(path)) {
      await apply(publisherId, record);
      records += 1;
    }
    await catalogue.markFeedDone(publisherId, path);
    return { status: 'imported', records };
  } finally {
    stop();
    await lock.release().catch((err) => logger.warn({ err: err.message, publisherId }, 'lock not released'));
  }
}
