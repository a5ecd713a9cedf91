import { Redis } from 'iovalkey';
import { createHash, randomUUID } from 'node:crypto';

// The transcription vendor bills us into the ground above `limit` parallel streams.
const SLOT_MS = 20_000;

const src = {
  enter: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
      redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
      return 1
    end
    return 0`,
  stay: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    local till = redis.call('ZSCORE', KEYS[1], ARGV[1])
    if not till or tonumber(till) <= now then return 0 end
    redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
    return 1`,
  leave: `return redis.call('ZREM', KEYS[1], ARGV[1])`,
};
const sha = Object.fromEntries(Object.entries(src).map(([k, v]) => [k, createHash('sha1').update(v).digest('hex')])) as Record<keyof typeof src, string>;

export class SpeechSlots {
  constructor(private readonly db: Redis, private readonly limit: number, private readonly key = 'speech:slots') {}

  private async call(name: keyof typeof src, ...args: (string | number)[]): Promise<number> {
    try {
      return Number(await this.db.evalsha(sha[name], 1, this.key, ...args));
    } catch (e) {
      if (e instanceof Error && e.message.includes('NOSCRIPT')) {
        return Number(await this.db.eval(src[name], 1, this.key, ...args));
      }
      throw e;
    }
  }

  async use<T>(job: (signal: AbortSignal) => Promise<T>, waitMs = 60_000): Promise<T> {
    const me = randomUUID();
    const limitAt = Date.now() + waitMs;
    let until: number;
    for (;;) {
      const t0 = performance.now();
      if ((await this.call('enter', me, this.limit, SLOT_MS)) === 1) {
        until = t0 + SLOT_MS;
        break;
      }
      if (Date.now() >= limitAt) throw new Error('all transcription slots are taken');
      await new Promise((r) => setTimeout(r, 250 + Math.random() * 500));
    }

    const ctl = new AbortController();
    const onLost = () => ctl.abort(new Error('slot lost'));
    // the vendor closes a stream within two seconds of the abort
    let fuse = setTimeout(onLost, Math.max(0, until - performance.now() - 3_000));
    const pulse = setInterval(async () => {
      const t0 = performance.now();
      const kept = await this.call('stay', me, SLOT_MS).catch(() => null);
      if (kept === null || ctl.signal.aborted) return; // fuse keeps burning
      if (kept !== 1) return onLost();
      clearTimeout(fuse);
      fuse = setTimeout(onLost, Math.max(0, t0 + SLOT_MS - performance.now() - 3_000));
    }, SLOT_MS / 4);

    try {
      ctl.signal.throwIfAborted();
      return await job(ctl.signal);
    } finally {
      clearInterval(pulse);
      clearTimeout(fuse);
      ctl.abort();
      await this.call('leave', me).catch(() => 0);
    }
  }
}
