import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';
import type { HistorianApi, SensorBatch } from './historian';
import { logger } from './logger';

// The historian's licence allows this many sessions; one more and it drops the oldest.
const MAX_SESSIONS = Number(process.env.HISTORIAN_SESSIONS ?? 5);
const SLOTS_KEY = 'historian:sessions';
const SLOT_LEASE_MS = 5 * 60_000;
const SESSION_LIMIT_MS = 3 * 60_000;

export interface Slot extends AsyncDisposable {
  readonly id: string;
}

/** The clock of the Redis server, so that the workers' clocks do not matter. */
async function serverNow(redis: RedisClientType): Promise<number> {
  const time = await redis.time();
  return time.getTime();
}

async function tryTakeSlot(redis: RedisClientType): Promise<string | null> {
  const now = await serverNow(redis);

  const [, inUse] = await redis
    .multi()
    .zRemRangeByScore(SLOTS_KEY, '-inf', now)
    .zCard(SLOTS_KEY)
    .exec();

  if (Number(inUse) >= MAX_SESSIONS) return null;

  const id = randomUUID();
  await redis
    .multi()
    .zAdd(SLOTS_KEY, { score: now + SLOT_LEASE_MS, value: id })
    .pExpire(SLOTS_KEY, SLOT_LEASE_MS * 2)
    .exec();
  return id;
}

export async function takeSlot(redis: RedisClientType, waitMs: number): Promise<Slot> {
  const giveUpAt = Date.now() + waitMs;
  for (;;) {
    const id = await tryTakeSlot(redis);
    if (id) {
      return {
        id,
        async [Symbol.asyncDispose]() {
          await redis
            .zRem(SLOTS_KEY, id)
            .catch((err) => logger.warn({ err, id }, 'historian slot not given back'));
        },
      };
    }
    if (Date.now() >= giveUpAt) throw new Error('no historian session free');
    await sleep(500 + Math.random() * 1_000);
  }
}

export async function exportBatches(
  redis: RedisClientType,
  historian: HistorianApi,
  batches: AsyncIterable<SensorBatch>,
): Promise<{ written: number; failed: number }> {
  let written = 0;
  let failed = 0;
  for await (const batch of batches) {
    try {
      await using slot = await takeSlot(redis, 60_000);
      // The session ends well before its slot does.
      const signal = AbortSignal.timeout(SESSION_LIMIT_MS);
      const session = await historian.open({ label: slot.id, signal });
      try {
        await session.write(batch.points, { signal });
        written += batch.points.length;
      } finally {
        await session.close({ timeoutMs: 5_000 });
      }
    } catch (err) {
      failed += batch.points.length;
      logger.error({ err, batch: batch.id }, 'sensor batch not exported');
    }
  }
  return { written, failed };
}
