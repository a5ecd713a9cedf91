import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { log } from './log.mjs';
import { metrics } from './metrics.mjs';
import { strikes, type ReportQueue } from './moderation.mjs';

const LOCK_KEY = 'moderation:sweeper';
const LOCK_TTL_MS = 20_000;
const EXTEND_EVERY_MS = 6_000;
const IDLE_MS = 15_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const redis = createClient({
  url: process.env.REDIS_URL,
  socket: { reconnectStrategy: (n) => Math.min(n * 100, 2_000) },
});
redis.on('error', (err) => log.warn({ err }, 'redis error'));

function keepAlive(token: string): () => void {
  const timer = setInterval(async () => {
    try {
      const ok = await redis.eval(EXTEND, {
        keys: [LOCK_KEY],
        arguments: [token, String(LOCK_TTL_MS)],
      });
      if (ok !== 1) {
        metrics.increment('moderation.sweeper.lock_lost');
        log.error({ token }, 'sweeper lock is no longer ours');
        clearInterval(timer);
      }
    } catch (err) {
      log.warn({ err }, 'could not extend the sweeper lock');
    }
  }, EXTEND_EVERY_MS);
  return () => clearInterval(timer);
}

async function sweep(reports: ReportQueue, stop: AbortSignal): Promise<number> {
  let handled = 0;
  for await (const report of reports.open({ olderThanMinutes: 5 })) {
    if (stop.aborted) break;
    const verdict = await reports.classify(report);
    if (verdict.action === 'strike') {
      // Three strikes mute the user for a day.
      await strikes.add(report.userId, verdict.reason);
    }
    await reports.close(report.id, verdict);
    handled += 1;
  }
  return handled;
}

export async function runSweeper(reports: ReportQueue, stop: AbortSignal): Promise<void> {
  await redis.connect();
  while (!stop.aborted) {
    const token = randomUUID();
    const got = await redis.set(LOCK_KEY, token, { NX: true, PX: LOCK_TTL_MS });
    if (got === 'OK') {
      const stopKeepAlive = keepAlive(token);
      try {
        const handled = await sweep(reports, stop);
        metrics.gauge('moderation.sweeper.handled', handled);
      } catch (err) {
        log.error({ err }, 'sweep failed');
      } finally {
        stopKeepAlive();
        await redis
          .eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] })
          .catch((err) => log.warn({ err }, 'sweeper unlock failed'));
      }
    }
    await sleep(IDLE_MS, undefined, { signal: stop }).catch(() => undefined);
  }
  await redis.quit();
}
