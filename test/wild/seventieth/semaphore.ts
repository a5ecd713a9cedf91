import { Redis } from 'ioredis';
import { nanoid } from 'nanoid';

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
`;

const PUT = `
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
`;

const TAKE = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
${PUT}`;

const KEEP = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
${PUT}`;

export interface SemaphoreOptions {
  limit: number;
  leaseMs?: number;
  waitMs?: number;
}

const pause = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

export class RedisSemaphore {
  private readonly leaseMs: number;
  private readonly waitMs: number;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly opts: SemaphoreOptions,
  ) {
    this.leaseMs = opts.leaseMs ?? 20_000;
    this.waitMs = opts.waitMs ?? 30_000;
  }

  /** Runs `task` in one of the slots. `task` must heed the signal. */
  async run<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = nanoid();
    const ac = new AbortController();
    let safeUntil = 0;
    let stopped = false;
    let watcher: NodeJS.Timeout | undefined;

    try {
      safeUntil = await this.take(id);

      let nextBeat = performance.now() + this.leaseMs / 3;
      let inFlight = false;
      watcher = setInterval(() => {
        const t = performance.now();
        if (t >= safeUntil) ac.abort(new Error(`slot in ${this.key} ran out`));
        if (ac.signal.aborted || inFlight || t < nextBeat) return;
        inFlight = true;
        nextBeat = t + this.leaseMs / 3;
        this.redis
          .eval(KEEP, 1, this.key, id, this.leaseMs)
          .then((r) => {
            if (stopped) return;
            if (r === 1) safeUntil = t + this.leaseMs * 0.85;
            else ac.abort(new Error(`slot in ${this.key} was lost`));
          })
          .catch((e: Error) => console.warn(`[semaphore] renew: ${e.message}`))
          .finally(() => {
            inFlight = false;
          });
      }, Math.max(20, this.leaseMs / 50));

      const out = await task(ac.signal);
      if (performance.now() >= safeUntil) ac.abort(new Error(`slot in ${this.key} ran out`));
      ac.signal.throwIfAborted();
      return out;
    } finally {
      stopped = true;
      clearInterval(watcher);
      await this.redis
        .zrem(this.key, id)
        .catch((e: Error) => console.warn(`[semaphore] release: ${e.message}`));
    }
  }

  private async take(id: string): Promise<number> {
    const giveUp = performance.now() + this.waitMs;
    for (;;) {
      const t = performance.now();
      const r = await this.redis.eval(TAKE, 1, this.key, id, this.leaseMs, this.opts.limit);
      const until = t + this.leaseMs * 0.85;
      if (r === 1 && performance.now() < until) return until;
      if (performance.now() > giveUp) throw new Error(`no free slot in ${this.key}`);
      await pause(80 + Math.random() * 120);
    }
  }
}
