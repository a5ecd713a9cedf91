/**
 * multi-redis-lock
 *
 * Lock over several independent Redis servers (node-redis 5). No single point of failure:
 * servers may go down and come back, the lock goes on working with the others.
 *
 * ```ts
 * const locker = new MultiLock([c1, c2, c3, c4, c5]);
 * const lock = await locker.lock('nightly-export', 60_000);
 * try {
 *   await exportAll({ deadline: lock.validUntil });
 * } finally {
 *   await lock.unlock();
 * }
 * ```
 */
import { randomBytes } from 'node:crypto';
import type { RedisClientType } from 'redis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

export interface MultiLockOptions {
  prefix?: string;
  /** How long to wait for one server, ms. */
  serverTimeout?: number;
  retries?: number;
  retryDelay?: number;
  /** Share of the ttl set aside for clock drift. */
  driftFactor?: number;
}

export interface Lock {
  readonly key: string;
  /** performance.now() time after which the lock must not be relied on */
  readonly validUntil: number;
  extend(ttl: number): Promise<void>;
  unlock(): Promise<void>;
}

export class MultiLockError extends Error {
  override name = 'MultiLockError';
}

type Answer = { ok: boolean } | undefined;

export class MultiLock {
  private readonly opts: Required<MultiLockOptions>;

  constructor(private readonly servers: RedisClientType[], opts: MultiLockOptions = {}) {
    if (servers.length === 0) throw new MultiLockError('no servers');
    this.opts = { prefix: 'ml:', serverTimeout: 100, retries: 8, retryDelay: 150, driftFactor: 0.01, ...opts };
  }

  async lock(name: string, ttl: number): Promise<Lock> {
    const key = this.opts.prefix + name;
    for (let attempt = 0; attempt <= this.opts.retries; attempt++) {
      const token = randomBytes(16).toString('hex');
      const validUntil = await this.vote(ttl, async (server) => {
        const reply = await server.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: ttl } });
        return reply === 'OK';
      });
      if (validUntil) return this.handle(key, token, validUntil);

      await this.unlock(key, token);
      await new Promise((r) => setTimeout(r, this.opts.retryDelay * (0.5 + Math.random())));
    }
    throw new MultiLockError(`${name} is locked`);
  }

  /** Asks all servers at once. Resolves to the end of validity, or 0 if the vote is lost. */
  private async vote(ttl: number, ask: (server: RedisClientType) => Promise<boolean>): Promise<number> {
    const start = performance.now();
    const answers = await Promise.all(this.servers.map((server) => this.within(ask(server))));

    // servers that are down have no vote
    const votes = answers.filter((a) => a !== undefined);
    const yes = votes.filter((a) => a!.ok).length;
    const needed = Math.floor(votes.length / 2) + 1;

    const validUntil = start + ttl - (ttl * this.opts.driftFactor + 2);
    return yes >= needed && performance.now() < validUntil ? validUntil : 0;
  }

  private within(reply: Promise<boolean>): Promise<Answer> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(undefined), this.opts.serverTimeout);
      reply
        .then((ok) => resolve({ ok }), () => resolve(undefined))
        .finally(() => clearTimeout(timer));
    });
  }

  private async unlock(key: string, token: string): Promise<void> {
    // on every server, also on those which said no or nothing
    await Promise.all(
      this.servers.map((server) =>
        this.within(server.eval(UNLOCK, { keys: [key], arguments: [token] }).then((n) => n === 1)),
      ),
    );
  }

  private handle(key: string, token: string, until: number): Lock {
    const locker = this;
    return {
      key,
      get validUntil() {
        return until;
      },
      async extend(ttl) {
        if (performance.now() >= until) throw new MultiLockError(`${key} has expired`);
        const next = await locker.vote(ttl, async (server) => {
          const reply = await server.eval(EXTEND, { keys: [key], arguments: [token, String(ttl)] });
          return reply === 1;
        });
        if (!next) throw new MultiLockError(`could not extend ${key}`);
        until = next;
      },
      async unlock() {
        until = 0;
        await locker.unlock(key, token);
      },
    };
  }
}
