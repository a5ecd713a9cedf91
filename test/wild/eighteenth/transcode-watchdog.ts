import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const TTL_MS = 30_000;
const RENEW_EVERY_MS = 10_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class TranscodeLockLost extends Error {}

async function release(client: RedisClient, key: string, token: string): Promise<void> {
  await client
    .eval(RELEASE, { keys: [key], arguments: [token] })
    .catch((err: unknown) => console.warn('release of %s failed, left to the TTL', key, err));
}

/**
 * Transcoding takes from seconds to hours, so the lock is short and a watchdog keeps it alive.
 * If it cannot be kept alive the signal tells ffmpeg to stop.
 */
export async function withTranscodeLock<T>(
  client: RedisClient,
  videoId: string,
  transcode: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> {
  const key = `transcode:${videoId}`;
  const token = randomUUID();

  const sentAt = performance.now();
  let reply: unknown;
  try {
    reply = await client.set(key, token, { NX: true, PX: TTL_MS });
  } catch (err) {
    await release(client, key, token);
    throw err;
  }
  if (reply !== 'OK') return null;

  const lost = new AbortController();
  let validUntil = sentAt + TTL_MS * 0.95;
  let deadline: NodeJS.Timeout | undefined;
  let watchdog: NodeJS.Timeout | undefined;

  const lose = (why: string) => {
    clearTimeout(deadline);
    clearInterval(watchdog);
    lost.abort(new TranscodeLockLost(`${key}: ${why}`));
  };
  const armDeadline = () => {
    clearTimeout(deadline);
    deadline = setTimeout(() => lose('ran out'), Math.max(0, validUntil - performance.now()));
  };

  const renew = async () => {
    const renewSentAt = performance.now();
    let renewed: unknown;
    try {
      // XX: only if the lock is still there, an expired one must not come back.
      renewed = await client.set(key, token, { XX: true, PX: TTL_MS });
    } catch (err) {
      // The next round may get through; the deadline goes on ticking.
      console.warn('renewal of %s failed', key, err);
      return;
    }
    if (lost.signal.aborted) return;
    if (renewed !== 'OK') return lose('expired');
    validUntil = renewSentAt + TTL_MS * 0.95;
    armDeadline();
  };

  armDeadline();
  watchdog = setInterval(() => void renew(), RENEW_EVERY_MS);
  try {
    if (performance.now() >= validUntil) throw new TranscodeLockLost(`${key}: granted too late`);
    const result = await transcode(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    clearInterval(watchdog);
    clearTimeout(deadline);
    await release(client, key, token);
  }
}
