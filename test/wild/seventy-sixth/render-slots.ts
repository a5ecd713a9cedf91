import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

// All times are taken from the Redis server, the render nodes' clocks do not matter.
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const ENTER = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if mine or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], 2 * tonumber(ARGV[3]))
  return 1
end
return 0`;

const STAY = `${NOW}
local until_ = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not until_ or tonumber(until_) <= now then
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * tonumber(ARGV[2]))
return 1`;

export interface SlotConfig {
  pool: string;
  slots: number;
  leaseMs: number;
  maxWaitMs: number;
}

/**
 * Keeps the number of encoders near the GPUs' capacity. A node that has lost its slot stops its
 * encoder; until it is gone there can be one more than configured, which the boxes can take.
 */
export class RenderSlots {
  private readonly key: string;

  constructor(private readonly redis: Redis, private readonly cfg: SlotConfig) {
    this.key = `render:slots:${cfg.pool}`;
  }

  async withSlot<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { slots, leaseMs, maxWaitMs } = this.cfg;
    const id = randomUUID();
    const giveUp = performance.now() + maxWaitMs;
    let since = 0;

    try {
      for (;;) {
        since = performance.now();
        if ((await this.redis.eval(ENTER, 1, this.key, id, slots, leaseMs)) === 1) break;
        if (performance.now() > giveUp) throw new Error(`no free slot in ${this.cfg.pool}`);
        await sleep(250 + Math.random() * 500);
      }
    } catch (err) {
      this.leave(id);
      throw err;
    }

    const ctl = new AbortController();
    let confirmedAt = since;
    let busy = false;
    const timer = setInterval(async () => {
      if (performance.now() - confirmedAt > leaseMs * 0.9) ctl.abort(new Error('slot lease ran out'));
      if (busy || ctl.signal.aborted) return;
      busy = true;
      const at = performance.now();
      try {
        if ((await this.redis.eval(STAY, 1, this.key, id, leaseMs)) === 1) confirmedAt = at;
        else ctl.abort(new Error('slot was given away'));
      } catch (err) {
        console.warn('slot renewal failed', (err as Error).message);
      } finally {
        busy = false;
      }
    }, leaseMs / 10);

    try {
      return await fn(ctl.signal);
    } finally {
      clearInterval(timer);
      await this.leave(id);
    }
  }

  private async leave(id: string): Promise<void> {
    await this.redis.zrem(this.key, id).catch((err) => console.warn('slot not returned', err.message));
  }
}

export async function encode(slots: RenderSlots, source: string, target: string): Promise<void> {
  await slots.withSlot(async (signal) => {
    const part = `${target}.${randomUUID()}.part.mp4`;
    try {
      await run('ffmpeg', ['-y', '-i', source, '-c:v', 'h264_nvenc', part], signal);
      await rename(part, target);
    } finally {
      await rm(part, { force: true });
    }
  });
}

function run(cmd: string, args: string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let failure: Error | undefined;
    const child = spawn(cmd, args, { signal, stdio: 'ignore' });
    child.on('error', (err) => {
      failure ??= err;
      if (child.pid === undefined) reject(err);
    });
    // The slot is ours until the encoder is really gone.
    child.on('close', (code) => {
      if (failure || code !== 0) reject(failure ?? new Error(`${cmd} ended with ${code}`));
      else resolve();
    });
  });
}
