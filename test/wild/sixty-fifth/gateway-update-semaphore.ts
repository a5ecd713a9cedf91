import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { RedisClientType } from 'redis';
import type { Logger } from './logger';

// Redis 6 or later: the clock of the server decides about expiry.
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const ENTER = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 1`;

const REFRESH = `${NOW}
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

export interface SemaphoreOptions {
  name: string;
  limit: number;
  leaseMs: number;
}

export function createSemaphore(client: RedisClientType, log: Logger, opts: SemaphoreOptions) {
  const key = `sem:${opts.name}`;
  const refreshMs = Math.floor(opts.leaseMs / 4);
  const marginMs = Math.floor(opts.leaseMs / 10);

  async function enter(signal: AbortSignal): Promise<{ id: string; askedAt: number }> {
    for (;;) {
      signal.throwIfAborted();
      const id = randomUUID();
      const askedAt = performance.now();
      const ok = await client.eval(ENTER, {
        keys: [key],
        arguments: [id, String(opts.limit), String(opts.leaseMs)],
      });
      if (ok === 1) return { id, askedAt };
      await sleep(200 + Math.random() * 300, undefined, { signal });
    }
  }

  return async function withSlot<T>(outer: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { id, askedAt } = await enter(outer);
    const lost = new AbortController();
    let validUntil = askedAt + opts.leaseMs - marginMs;
    let ended = false;

    const lose = (why: string) => {
      log.warn({ key, id, why }, 'slot lost');
      lost.abort(new Error(`${key}: ${why}`));
    };

    const stopKeeper = new AbortController();
    const keep = async (): Promise<void> => {
      while (!ended && !lost.signal.aborted) {
        await sleep(Math.max(0, Math.min(refreshMs, validUntil - performance.now())), undefined, {
          signal: stopKeeper.signal,
        }).catch(() => undefined);
        if (ended) return;
        const sentAt = performance.now();
        if (sentAt >= validUntil) return lose('lease ran out');
        try {
          const reply = await Promise.race([
            client.eval(REFRESH, { keys: [key], arguments: [id, String(opts.leaseMs)] }),
            sleep(validUntil - sentAt, 'late', { ref: false }),
          ]);
          if (ended) return;
          if (reply === 'late') return lose('refresh took too long');
          if (reply !== 1) return lose('slot was reclaimed');
          validUntil = sentAt + opts.leaseMs - marginMs;
        } catch (err) {
          log.warn({ err, key }, 'slot refresh failed');
          await sleep(500);
        }
      }
    };
    void keep();

    try {
      if (performance.now() >= validUntil) lose('slow answer');
      lost.signal.throwIfAborted();
      return await work(AbortSignal.any([outer, lost.signal]));
    } finally {
      ended = true;
      stopKeeper.abort();
      await client.zRem(key, id).catch((err) => log.warn({ err, key }, 'slot not given back'));
    }
  };
}

export interface Gateway {
  id: string;
  push(firmware: Uint8Array, signal: AbortSignal): Promise<void>;
}

/** At most twelve gateways of the fleet download at the same time, over all workers. */
export async function rollOut(
  client: RedisClientType,
  log: Logger,
  gateways: Gateway[],
  firmware: Uint8Array,
  signal: AbortSignal,
): Promise<string[]> {
  const withSlot = createSemaphore(client, log, { name: 'gateway-update', limit: 12, leaseMs: 40_000 });
  const queue = new PQueue({ concurrency: 4 });
  const failed: string[] = [];
  await queue.addAll(
    gateways.map((gw) => async () => {
      try {
        await withSlot(signal, (s) => gw.push(firmware, AbortSignal.any([s, AbortSignal.timeout(300_000)])));
      } catch (err) {
        log.error({ err, gateway: gw.id }, 'firmware push failed');
        failed.push(gw.id);
      }
    }),
  );
  return failed;
}
