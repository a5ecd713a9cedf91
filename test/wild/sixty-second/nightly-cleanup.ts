import os from 'node:os';
import cron from 'node-cron';
import { createClient } from 'redis';
import { Pool } from 'pg';

const pool = new Pool();
const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('[redis]', err.message));

interface OncePerSlotOptions {
  /** How long the claim is remembered. Must outlast every server's idea of the slot. */
  rememberSeconds?: number;
  /** Hard limit for one run. */
  maxRunMs?: number;
}

/**
 * Runs `job` on at most one server for a given slot (e.g. one calendar day).
 *
 * The claim is never given back, neither after success nor after a failure:
 * a server that fires late still finds it. A run that dies halfway is therefore not
 * repeated in the same slot. Use it for jobs that catch up in the next one.
 */
export async function oncePerSlot(
  name: string,
  slot: string,
  job: (signal: AbortSignal) => Promise<void>,
  { rememberSeconds = 48 * 3600, maxRunMs = 4 * 3600_000 }: OncePerSlotOptions = {},
): Promise<'ran' | 'skipped'> {
  const key = `once:${name}:${slot}`;
  const claimed = await redis.set(key, `running on ${os.hostname()}`, {
    condition: 'NX',
    expiration: { type: 'EX', value: rememberSeconds },
  });
  if (claimed !== 'OK') return 'skipped';

  const note = (text: string) =>
    redis
      .set(key, `${text} on ${os.hostname()}`, { condition: 'XX', expiration: 'KEEPTTL' })
      .catch((err) => console.warn('could not update %s: %s', key, err.message));

  try {
    await job(AbortSignal.timeout(maxRunMs));
    await note('done');
  } catch (err) {
    await note('failed');
    throw err;
  }
  return 'ran';
}

/** Deletes sessions idle for 90 days, in small batches so that replicas keep up. */
async function purgeSessions(signal: AbortSignal): Promise<void> {
  let deleted: number;
  do {
    signal.throwIfAborted();
    const res = await pool.query(
      `DELETE FROM sessions WHERE id IN (
         SELECT id FROM sessions WHERE last_seen < now() - interval '90 days' LIMIT 5000)`,
    );
    deleted = res.rowCount ?? 0;
  } while (deleted > 0);
}

export async function main() {
  await redis.connect();
  // 02:30 UTC is far from midnight, so all servers agree on the date.
  cron.schedule(
    '30 2 * * *',
    async () => {
      const slot = new Date().toISOString().slice(0, 10);
      try {
        const outcome = await oncePerSlot('purge-sessions', slot, purgeSessions);
        console.log('purge-sessions %s: %s', slot, outcome);
      } catch (err) {
        console.error('purge-sessions %s failed', slot, err);
      }
    },
    { timezone: 'UTC' },
  );
}
