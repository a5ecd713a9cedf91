import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const KEEP = `${NOW}
local till = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not till or tonumber(till) <= now then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

export class NoSlotError extends Error {}

export class TranscodeSlots {
  private readonly key = 'transcode:slots';
  private readonly slotMs = 30_000;

  constructor(
    private readonly redis: Redis,
    private readonly limit: number,
  ) {}

  async run<T>(waitMs: number, job: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = randomUUID();
    let grantedFrom = await this.take(id, waitMs);
    const lost = new AbortController();

    let renewing = false;
    const timer = setInterval(async () => {
      if (Date.now() - grantedFrom > this.slotMs - 3_000) {
        lost.abort(new NoSlotError('slot ran out'));
        return;
      }
      if (renewing) return;
      renewing = true;
      const askedAt = Date.now();
      try {
        const kept = await this.redis.eval(KEEP, 1, this.key, id, this.slotMs);
        if (kept === 1) grantedFrom = askedAt;
        else lost.abort(new NoSlotError('slot was taken back'));
      } catch (err) {
        console.warn('slot renewal failed', err);
      } finally {
        renewing = false;
      }
    }, 2_000);

    try {
      return await job(lost.signal);
    } finally {
      clearInterval(timer);
      await this.redis.zrem(this.key, id).catch((err: Error) => console.warn('slot not returned: %s', err.message));
    }
  }

  private async take(id: string, waitMs: number): Promise<number> {
    const giveUpAt = Date.now() + waitMs;
    for (;;) {
      const askedAt = Date.now();
      const taken = await this.redis.eval(TAKE, 1, this.key, id, this.limit, this.slotMs);
      if (taken === 1) return askedAt;
      if (Date.now() >= giveUpAt) throw new NoSlotError('all transcode slots are busy');
      await sleep(250 + Math.random() * 250);
    }
  }
}
