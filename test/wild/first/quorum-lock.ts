import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const UNLOCK = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`;

export interface HeldLock {
  readonly resource: string;
  readonly value: string;
  /** Milliseconds for which the lock can still be relied on; negative once it is over. */
  remaining(): number;
}

interface Entry extends HeldLock {
  validUntil: number;
}

/** REDIS_NODES is a comma separated list of `host:port` of independent masters. */
export class QuorumLock {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(hosts = (process.env.REDIS_NODES ?? '').split(',')) {
    this.nodes = hosts.map((entry) => {
      const [host = 'localhost', port = '6379'] = entry.trim().split(':');
      const node = new Redis({ host, port: Number(port), commandTimeout: 300, maxRetriesPerRequest: 0 });
      node.on('error', () => undefined);
      return node;
    });
    this.quorum = Math.floor(this.nodes.length / 2) + 1;
  }

  /** Tries a few times; null if others keep the lock. */
  async acquire(resource: string, ttl: number, attempts = 4): Promise<HeldLock | null> {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      if (attempt > 1) await sleep(80 + Math.random() * 120);
      const value = randomBytes(16).toString('hex');
      const start = performance.now();
      const votes = await this.count((node) => node.set(resource, value, 'PX', ttl, 'NX').then((r) => r === 'OK'));
      const validUntil = start + ttl - this.drift(ttl);
      if (votes >= this.quorum && performance.now() < validUntil) return this.held(resource, value, validUntil);
      await this.unlock(resource, value);
    }
    return null;
  }

  /** True if a majority has prolonged the key. If not, the lock stays valid for as long as it was. */
  async extend(lock: HeldLock, ttl: number): Promise<boolean> {
    const entry = lock as Entry;
    if (entry.remaining() <= 0) return false;
    const start = performance.now();
    // A shorter time takes effect on nodes that do not answer, too.
    entry.validUntil = Math.min(entry.validUntil, start + ttl - this.drift(ttl));
    const before = entry.validUntil;
    const votes = await this.count((node) =>
      node.eval(EXTEND, 1, lock.resource, lock.value, ttl).then((r) => r === 1),
    );
    if (votes < this.quorum || performance.now() >= before || entry.validUntil !== before) return false;
    entry.validUntil = start + ttl - this.drift(ttl);
    return entry.remaining() > 0;
  }

  async release(lock: HeldLock): Promise<void> {
    (lock as Entry).validUntil = Number.NEGATIVE_INFINITY;
    await this.unlock(lock.resource, lock.value);
  }

  private unlock(resource: string, value: string): Promise<number> {
    return this.count((node) => node.eval(UNLOCK, 1, resource, value).then((r) => r === 1));
  }

  private async count(ask: (node: Redis) => Promise<boolean>): Promise<number> {
    const answers = await Promise.all(this.nodes.map((node) => ask(node).catch(() => false)));
    return answers.filter(Boolean).length;
  }

  private drift(ttl: number): number {
    return Math.ceil(ttl * 0.01) + 2;
  }

  private held(resource: string, value: string, validUntil: number): Entry {
    return {
      resource,
      value,
      validUntil,
      remaining() {
        return this.validUntil - performance.now();
      },
    };
  }
}
