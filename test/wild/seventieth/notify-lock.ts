import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import type { Redis } from 'ioredis';

/**
 * NotifyLock - no polling. Waiters sleep until the holder says it is done.
 *
 * ✅ random token          ✅ ttl
 * ✅ atomic release        ✅ renewed while the work runs
 */
export class NotifyLock {
  private readonly sub: Redis;
  private readonly bell = new EventEmitter().setMaxListeners(0);
  private readonly users = new Map<string, number>();

  constructor(private readonly redis: Redis, private readonly ttlMs = 10_000) {
    this.sub = redis.duplicate();
    this.sub.on('error', (e) => console.error('sub:', e.message));
    this.sub.on('message', (channel: string) => this.bell.emit(channel));
  }

  private static readonly RELEASE = `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      redis.call('DEL', KEYS[1])
      redis.call('PUBLISH', ARGV[2], '1')
      return 1
    end
    return 0`;

  private static readonly EXTEND = `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return 0`;

  async using<T>(name: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `lock:${name}`;
    const channel = `unlock:${name}`;
    const token = randomUUID();
    await this.acquire(key, channel, token);

    const ac = new AbortController();
    let safeUntil = performance.now() + this.ttlMs * 0.7;
    const timer = setInterval(() => {
      const at = performance.now();
      if (at > safeUntil) ac.abort(new Error(`${name}: lease ran out`));
      this.redis.eval(NotifyLock.EXTEND, 1, key, token, this.ttlMs).then(
        (r) => (r === 1 ? (safeUntil = at + this.ttlMs * 0.7) : ac.abort(new Error(`${name}: lost`))),
        (e: Error) => console.warn(`${name}: extend: ${e.message}`),
      );
    }, this.ttlMs / 5);

    try {
      const out = await fn(ac.signal);
      ac.signal.throwIfAborted();
      return out;
    } finally {
      clearInterval(timer);
      await this.redis
        .eval(NotifyLock.RELEASE, 1, key, token, channel)
        .catch((e: Error) => console.warn(`${name}: release: ${e.message}`));
    }
  }

  private async acquire(key: string, channel: string, token: string): Promise<void> {
    await this.join(channel);
    try {
      for (;;) {
        // listen first, so that a release right after our SET is not missed
        const stop = new AbortController();
        const rung = once(this.bell, channel, { signal: stop.signal });
        rung.catch(() => {});
        try {
          if ((await this.redis.set(key, token, 'PX', this.ttlMs, 'NX')) === 'OK') return;
          await rung;
        } finally {
          stop.abort();
        }
      }
    } finally {
      await this.leave(channel);
    }
  }

  private async join(channel: string) {
    this.users.set(channel, (this.users.get(channel) ?? 0) + 1);
    await this.sub.subscribe(channel);
  }

  private async leave(channel: string) {
    const n = (this.users.get(channel) ?? 1) - 1;
    if (n > 0) {
      this.users.set(channel, n);
      return;
    }
    this.users.delete(channel);
    await this.sub.unsubscribe(channel).catch(() => {});
  }
}
