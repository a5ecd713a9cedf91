import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Redis } from 'iovalkey';

const run = promisify(execFile);

// Members of the sorted set are permits, scores their expiry by the server's clock.
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end -- sent twice by the client
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

export interface RenderSlotsOptions {
  valkey: Redis;
  pool: string;
  /** Licences we own: at most this many encoders at a time over all machines. */
  permits: number;
  permitMs?: number;
  encodeMs?: number;
  waitMs?: number;
}

export class NoSlotError extends Error {}

export class RenderSlots {
  private readonly key: string;
  private readonly permitMs: number;
  private readonly encodeMs: number;
  private readonly waitMs: number;

  constructor(private readonly opts: RenderSlotsOptions) {
    this.key = `render:slots:${opts.pool}`;
    this.permitMs = opts.permitMs ?? 120_000;
    this.encodeMs = opts.encodeMs ?? 100_000;
    this.waitMs = opts.waitMs ?? 30_000;
    if (this.encodeMs + 5_000 > this.permitMs) {
      throw new RangeError('encodeMs must stay well below permitMs');
    }
  }

  private async take(): Promise<{ id: string; sentAt: number }> {
    const giveUp = performance.now() + this.waitMs;
    do {
      const id = randomUUID();
      const sentAt = performance.now();
      let taken: unknown;
      try {
        taken = await this.opts.valkey.eval(TAKE, 1, this.key, id, this.opts.permits, this.permitMs);
      } catch (err) {
        await this.give(id);
        throw err;
      }
      if (taken === 1) return { id, sentAt };
      await sleep(200 + Math.random() * 300);
    } while (performance.now() < giveUp);
    throw new NoSlotError(`no slot in ${this.opts.pool}`);
  }

  private async give(id: string): Promise<void> {
    try {
      // ids are unique, so this can only remove our own permit
      await this.opts.valkey.zrem(this.key, id);
    } catch (err) {
      console.warn('permit left to expire', id, err);
    }
  }

  async encode(input: string, output: string): Promise<void> {
    const { id, sentAt } = await this.take();
    try {
      const seconds = Math.floor((sentAt + this.encodeMs - performance.now()) / 1000);
      if (seconds < 1) throw new NoSlotError('slot came too late');
      // The encoder is killed hard before the permit can run out, even if this process is gone by then.
      const encode = ['ffmpeg', '-y', '-i', input, '-c:v', 'h264_nvenc', output];
      await run('timeout', ['--signal=KILL', String(seconds), ...encode]);
    } finally {
      await this.give(id);
    }
  }
}

export function slotsFromEnv(): RenderSlots {
  const valkey = new Redis(process.env.VALKEY_URL ?? 'redis://127.0.0.1:6379', {
    maxRetriesPerRequest: 2,
    commandTimeout: 3_000,
  });
  valkey.on('error', (err: Error) => console.error('valkey', err.message));
  return new RenderSlots({ valkey, pool: 'nvenc', permits: Number(process.env.NVENC_LICENCES ?? 4) });
}
