import { EventEmitter, once } from 'node:events';
import type { Redis } from 'ioredis';
import { ulid } from 'ulid';

/**
 * Counting semaphore: at most `limit` holders over all processes.
 *
 * One ZSET per semaphore, a member per holder, its score is the moment at which
 * the slot is free again. All times are taken from the Redis server.
 */
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[2])
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', now + ttl, ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return 1`;

const GIVE = `
local n = redis.call('ZREM', KEYS[1], ARGV[1])
if n == 1 then
  redis.call('PUBLISH', ARGV[2], '1')
end
return n`;

declare module 'ioredis' {
  interface RedisCommander<Context> {
    semTake(key: string, id: string, limit: number, ttl: number): Promise<number>;
    semKeep(key: string, id: string, ttl: number): Promise<number>;
    semGive(key: string, id: string, channel: string): Promise<number>;
  }
}

export class Semaphore {
  private readonly key: string;
  private readonly channel: string;
  private readonly wake = new EventEmitter().setMaxListeners(0);

  private constructor(
    private readonly redis: Redis,
    private readonly sub: Redis,
    name: string,
    private readonly limit: number,
    private readonly ttl: number,
  ) {
    this.key = `sem:${name}`;
    this.channel = `sem:${name}:free`;
  }

  static async create(redis: Redis, name: string, limit: number, ttl = 20_000): Promise<Semaphore> {
    redis.defineCommand('semTake', { numberOfKeys: 1, lua: TAKE });
    redis.defineCommand('semKeep', { numberOfKeys: 1, lua: KEEP });
    redis.defineCommand('semGive', { numberOfKeys: 1, lua: GIVE });

    const sub = redis.duplicate();
    sub.on('error', () => {}); // without it we only poll
    const semaphore = new Semaphore(redis, sub, name, limit, ttl);
    sub.on('message', () => semaphore.wake.emit('free'));
    await sub.subscribe(semaphore.channel);
    return semaphore;
  }

  /** Runs `fn` in a slot. `fn` has to stop when its signal is aborted. */
  async use<T>(fn: (signal: AbortSignal) => Promise<T>, maxWait = 60_000): Promise<T> {
    const id = ulid();
    const giveUp = performance.now() + maxWait;
    let sent = performance.now();

    while ((await this.redis.semTake(this.key, id, this.limit, this.ttl)) !== 1) {
      if (performance.now() >= giveUp) throw new Error(`${this.key}: no free slot`);
      await this.pause(500 + Math.random() * 1000);
      sent = performance.now();
    }

    const lost = new AbortController();
    let until = sent + this.ttl * 0.8;
    let done = false;
    let timer: NodeJS.Timeout | undefined;

    const beat = async (): Promise<void> => {
      if (done || lost.signal.aborted) return;
      const now = performance.now();
      if (now >= until) return lost.abort(new Error(`${this.key}: slot expired`));
      // The renewal is sent without being awaited here: the clock goes on.
      this.redis.semKeep(this.key, id, this.ttl).then(
        (kept) => {
          if (kept === 1) until = Math.max(until, now + this.ttl * 0.8);
          else if (!done) lost.abort(new Error(`${this.key}: slot was given away`));
        },
        () => {}, // the next beat tries again, `until` stays where it is
      );
      timer = setTimeout(beat, this.ttl / 10);
    };

    try {
      await beat();
      lost.signal.throwIfAborted();
      return await fn(lost.signal);
    } finally {
      done = true;
      clearTimeout(timer);
      await this.redis.semGive(this.key, id, this.channel).catch(() => 0);
    }
  }

  private async pause(ms: number): Promise<void> {
    await once(this.wake, 'free', { signal: AbortSignal.timeout(Math.ceil(ms)) }).catch(() => {});
  }

  async close(): Promise<void> {
    await this.sub.quit();
  }
}

/*
 *  const renders = await Semaphore.create(redis, 'pdf-render', 4);
 *  const pdf = await renders.use((signal) => renderPdf(doc, { signal }));
 */
