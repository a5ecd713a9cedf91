import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const LEASE_MS = 20_000;
const MARGIN_MS = 1_000;

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

export const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 3,
  scripts: {
    slotTake: {
      numberOfKeys: 1,
      lua: `${NOW}
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
        if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
          return 0
        end
        redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1`,
    },
    slotKeep: {
      numberOfKeys: 1,
      lua: `${NOW}
        if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
        redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1`,
    },
  },
});
redis.on('error', (err) => console.error('redis', err.message));

/** At most `limit` spectrogram jobs of a pool at once; fn must stop when the signal fires. */
export async function withGpuSlot(pool, fn, { limit = Number(process.env.GPU_SLOTS ?? 4), waitMs = 120_000 } = {}) {
  const key = `batcalls:gpu:${pool}`;
  const token = randomUUID();
  const lost = new AbortController();
  const giveUpAt = performance.now() + waitMs;
  let validUntil = 0;

  try {
    for (;;) {
      const sentAt = performance.now();
      if ((await redis.slotTake(key, token, LEASE_MS, limit)) === 1) {
        validUntil = sentAt + LEASE_MS - MARGIN_MS;
        if (performance.now() < validUntil) break;
      }
      if (performance.now() > giveUpAt) throw new Error(`no gpu slot in ${pool} within ${waitMs} ms`);
      await sleep(200 + Math.random() * 300);
    }
    const stopKeeping = keep(key, token, validUntil, lost);
    try {
      const out = await fn(lost.signal);
      lost.signal.throwIfAborted();
      return out;
    } finally {
      stopKeeping();
    }
  } finally {
    await redis.zrem(key, token).catch(() => {});
  }
}

function keep(key, token, validUntil, lost) {
  const fail = () => lost.abort(new Error(`gpu slot ${key} lost`));
  let expiry = setTimeout(fail, validUntil - performance.now());
  const timer = setInterval(async () => {
    const sentAt = performance.now();
    const ok = await redis.slotKeep(key, token, LEASE_MS).catch(() => null);
    if (stopped || lost.signal.aborted || ok === null) return;
    clearTimeout(expiry);
    if (ok === 0) return fail();
    expiry = setTimeout(fail, Math.max(0, sentAt + LEASE_MS - MARGIN_MS - performance.now()));
  }, LEASE_MS / 4);
  let stopped = false;
  return () => {
    stopped = true;
    clearInterval(timer);
    clearTimeout(expiry);
  };
}
