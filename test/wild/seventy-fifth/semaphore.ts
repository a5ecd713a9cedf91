/**
 * redis-permits: a counting semaphore shared by all your processes.
 *
 * ```ts
 * const pdf = new Semaphore(redis, 'pdf-render', { limit: 4 });
 * await pdf.run(async (signal) => renderPdf(input, { signal }), { patience: 10_000 });
 * ```
 *
 * Each permit is a member of a sorted set, scored with the time (of the Redis server) at
 * which it lapses. A permit in use is kept alive by a heartbeat. When the heartbeat does
 * not get through, `signal` aborts before the permit can be given to someone else.
 *
 * All users of one name should use the same limit. Needs Redis 5 or later.
 */
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';

const CLOCK = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

const KEEP = `
if redis.call('PTTL', KEYS[1]) < lease then redis.call('PEXPIRE', KEYS[1], lease + 1000) end
return 1
`;

// KEYS: set; ARGV: permit, lease, limit
const ACQUIRE = `${CLOCK}
local lease = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1])
   and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + lease, ARGV[1])
${KEEP}`;

const RENEW = `${CLOCK}
local lease = tonumber(ARGV[2])
local lapses = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not lapses or tonumber(lapses) <= now then return 0 end
redis.call('ZADD', KEYS[1], now + lease, ARGV[1])
${KEEP}`;

export class PermitTimeout extends Error {}
export class PermitLost extends Error {}

export interface SemaphoreOptions {
  limit: number;
  /** ms, how long a permit survives its owner */
  lease?: number;
}

export class Semaphore {
  readonly key: string;
  readonly limit: number;
  readonly lease: number;

  constructor(private readonly redis: Redis, name: string, { limit, lease = 12_000 }: SemaphoreOptions) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError('limit must be 1 or more');
    if (!Number.isInteger(lease) || lease < 1_000) throw new RangeError('lease must be at least 1000');
    this.key = `permits:${name}`;
    this.limit = limit;
    this.lease = lease;
  }

  async tryAcquire(): Promise<Permit | null> {
    const id = randomUUID();
    const asked = performance.now();
    try {
      const ok = await this.redis.eval(ACQUIRE, 1, this.key, id, this.lease, this.limit);
      if (ok !== 1) return null;
    } catch (err) {
      this.redis.zrem(this.key, id).catch(() => {});
      throw err;
    }
    return new Permit(this.redis, this.key, id, this.lease, asked);
  }

  async run<T>(fn: (signal: AbortSignal) => Promise<T>, { patience = 30_000 } = {}): Promise<T> {
    const giveUp = performance.now() + patience;
    let permit: Permit | null;
    while (!(permit = await this.tryAcquire())) {
      if (performance.now() > giveUp) throw new PermitTimeout(`no permit for ${this.key}`);
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 150));
    }
    try {
      permit.signal.throwIfAborted();
      return await fn(permit.signal);
    } finally {
      await permit.release();
    }
  }
}

export class Permit {
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout;
  private asking = false;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    readonly id: string,
    private readonly lease: number,
    private provenAt: number,
  ) {
    this.timer = setInterval(() => this.beat(), lease / 12);
    this.beat();
  }

  get signal() {
    return this.controller.signal;
  }

  private beat() {
    const age = performance.now() - this.provenAt;
    if (age > this.lease * 0.8) return this.lose('no heartbeat got through');
    if (age < this.lease * 0.25 || this.asking) return;
    this.asking = true;
    const asked = performance.now();
    this.redis
      .eval(RENEW, 1, this.key, this.id, this.lease)
      .then((ok) => {
        if (ok === 1) this.provenAt = asked;
        else this.lose('lapsed');
      })
      .catch(() => {}) // the next beat tries again
      .finally(() => (this.asking = false));
  }

  private lose(why: string) {
    clearInterval(this.timer);
    this.controller.abort(new PermitLost(`permit for ${this.key}: ${why}`));
  }

  async release() {
    clearInterval(this.timer);
    await this.redis.zrem(this.key, this.id).catch(() => {});
  }
}
