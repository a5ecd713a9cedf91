import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';
import Redis from 'ioredis';
import pino from 'pino';

const log = pino({ name: 'map-build' });
const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_500 });

const SLOT_TTL_MS = 20_000;
const SLOT_MARGIN_MS = 2_000;
const BUILDS_PER_REGION = Number(process.env.BUILDS_PER_REGION ?? 6);

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;
const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;
const KEEP = `${NOW}
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

export class NoSlotError extends Error {}
export class SlotLostError extends Error {}

interface Slot {
  member: string;
  sentAt: number;
}

async function takeSlot(key: string, limit: number, waitMs: number): Promise<Slot> {
  const giveUpAt = performance.now() + waitMs;
  do {
    const member = randomUUID();
    const sentAt = performance.now();
    try {
      if ((await redis.eval(TAKE, 1, key, member, SLOT_TTL_MS, limit)) === 1) return { member, sentAt };
    } catch (err) {
      await redis.zrem(key, member).catch(() => {});
      throw err;
    }
    await sleep(400 + Math.random() * 300);
  } while (performance.now() < giveUpAt);
  throw new NoSlotError(`no free slot in ${key}`);
}

export async function withSlot<T>(key: string, limit: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { member, sentAt } = await takeSlot(key, limit, 60_000);
  const controller = new AbortController();
  const stop = new AbortController();
  let validUntil = sentAt + SLOT_TTL_MS - SLOT_MARGIN_MS;
  const lose = () => controller.abort(new SlotLostError(`slot in ${key} lost`));
  const untilExpiry = () => Math.max(0, validUntil - performance.now());
  let watchdog = setTimeout(lose, untilExpiry());

  const keeper = (async () => {
    for (;;) {
      await sleep(SLOT_TTL_MS / 5, undefined, { signal: stop.signal }).catch(() => {});
      if (stop.signal.aborted || controller.signal.aborted) return;
      const keepSentAt = performance.now();
      try {
        const kept = await redis.eval(KEEP, 1, key, member, SLOT_TTL_MS);
        if (kept !== 1) return lose();
        validUntil = keepSentAt + SLOT_TTL_MS - SLOT_MARGIN_MS;
        clearTimeout(watchdog);
        watchdog = setTimeout(lose, untilExpiry());
      } catch (err) {
        log.warn({ err, key }, 'could not refresh slot');
      }
    }
  })();

  try {
    if (performance.now() >= validUntil) lose();
    controller.signal.throwIfAborted();
    return await work(controller.signal);
  } finally {
    stop.abort();
    await keeper;
    clearTimeout(watchdog);
    await redis.zrem(key, member).catch((err) => log.warn({ err, key }, 'slot not given back'));
  }
}

export async function buildMap(region: string, mapId: string): Promise<string> {
  return withSlot(`build-slots:${region}`, BUILDS_PER_REGION, async (signal) => {
    const api = axios.create({ baseURL: `https://builder.${region}.game.internal`, timeout: 10_000, signal });
    const { data: build } = await api.put(`/builds/${mapId}`);
    try {
      for (;;) {
        const { data } = await api.get(`/builds/${mapId}`);
        if (data.state === 'ready') return data.artifactUrl as string;
        if (data.state === 'failed') throw new Error(`build of ${mapId} failed: ${data.reason}`);
        await sleep(1_000, undefined, { signal });
      }
    } catch (err) {
      await axios
        .delete(`https://builder.${region}.game.internal/builds/${mapId}`, { params: { id: build.id }, timeout: 3_000 })
        .catch((cancelErr) => log.error({ err: cancelErr, mapId }, 'build not cancelled'));
      throw err;
    }
  });
}
