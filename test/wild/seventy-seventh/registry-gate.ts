import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type Redis from 'ioredis';
import { logger } from './logger';

/*
 * Many exports may read the parcel files of a municipality at the same time, a rebuild
 * wants them for itself. The gate spares the exports from a directory that is swapped
 * under them. It need not be watertight: an export verifies the manifest checksum when it
 * is done and starts over on a mismatch, rebuilds swap in a complete directory by rename.
 */

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

// KEYS: 1 writer, 2 readers (zset token -> expiry), 3 a writer is waiting
// ARGV: 1 token, 2 lease in ms
const SCRIPTS = {
  read: {
    acquire: `${NOW}
      if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then return 0 end
      redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
      if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
      return 1`,
    renew: `${NOW}
      local expiry = redis.call('ZSCORE', KEYS[2], ARGV[1])
      if not expiry or tonumber(expiry) <= now then return 0 end
      redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
      if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
      return 1`,
    release: `return redis.call('ZREM', KEYS[2], ARGV[1])`,
  },
  write: {
    acquire: `${NOW}
      local writer = redis.call('GET', KEYS[1])
      if writer and writer ~= ARGV[1] then return 0 end
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
      if redis.call('ZCARD', KEYS[2]) > 0 then
        redis.call('SET', KEYS[3], ARGV[1], 'PX', 2000)
        return 0
      end
      redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
      redis.call('DEL', KEYS[3])
      return 1`,
    renew: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])`,
    release: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('DEL', KEYS[1])`,
  },
} as const;

type Mode = keyof typeof SCRIPTS;
type Step = keyof (typeof SCRIPTS)['read'];

export class GateClosedError extends Error {}
export class GateLostError extends Error {}

export class RegistryGate {
  constructor(
    private readonly redis: Redis,
    private readonly municipality: string,
    private readonly leaseMs = 30_000,
    private readonly waitMs = 120_000,
  ) {}

  reading<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.pass('read', fn);
  }

  rebuilding<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.pass('write', fn);
  }

  private run(mode: Mode, step: Step, token: string): Promise<unknown> {
    const base = `gate:{${this.municipality}}`;
    const keys = [`${base}:writer`, `${base}:readers`, `${base}:waiting`];
    return this.redis.eval(SCRIPTS[mode][step], 3, ...keys, token, this.leaseMs);
  }

  private async pass<T>(mode: Mode, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const token = randomUUID();
    const lost = new AbortController();
    const giveUpAt = Date.now() + this.waitMs;
    let heartbeat: NodeJS.Timeout | undefined;
    let lastConfirmed = 0;

    try {
      for (;;) {
        lastConfirmed = performance.now();
        if ((await this.run(mode, 'acquire', token)) === 1) break;
        if (Date.now() > giveUpAt) throw new GateClosedError(`${mode} gate of ${this.municipality} is closed`);
        await sleep(200 + Math.random() * 300);
      }

      heartbeat = setInterval(() => {
        const sentAt = performance.now();
        if (sentAt - lastConfirmed > this.leaseMs * 0.8) {
          lost.abort(new GateLostError(`no renewal for ${Math.round(sentAt - lastConfirmed)} ms`));
          return;
        }
        this.run(mode, 'renew', token).then(
          (ok) => {
            if (ok === 1) lastConfirmed = Math.max(lastConfirmed, sentAt);
            else lost.abort(new GateLostError('lease ran out'));
          },
          (err) => logger.warn({ err, mode }, 'gate renewal failed'),
        );
      }, this.leaseMs / 10);

      const result = await fn(lost.signal);
      lost.signal.throwIfAborted();
      return result;
    } finally {
      clearInterval(heartbeat);
      await this.run(mode, 'release', token).catch((err) => logger.warn({ err, mode }, 'gate not released'));
    }
  }
}
