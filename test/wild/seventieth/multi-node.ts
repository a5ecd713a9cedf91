import crypto from 'node:crypto';
import { Redis } from 'ioredis';

// Lock over several independent Redis masters, after the Redlock description.

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export interface MultiLock {
  resource: string;
  token: string;
  /** on the clock of performance.now(); do not touch the resource past this point */
  validUntil: number;
}

export interface MultiLockerOptions {
  retries?: number;
  retryDelayMs?: number;
  driftFactor?: number;
}

export function connect(urls = (process.env.REDIS_NODES ?? '').split(',')): Redis[] {
  return urls.map((u) => {
    const r = new Redis(u, {
      commandTimeout: 150,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
    });
    r.on('error', (e) => console.warn(`${u}: ${e.message}`));
    return r;
  });
}

export class MultiLocker {
  private readonly retries: number;
  private readonly delay: number;
  private readonly drift: number;

  constructor(private readonly nodes: Redis[], o: MultiLockerOptions = {}) {
    if (nodes.length === 0) throw new Error('at least one node');
    this.retries = o.retries ?? 10;
    this.delay = o.retryDelayMs ?? 200;
    this.drift = o.driftFactor ?? 0.01;
  }

  async acquire(resource: string, ttlMs: number): Promise<MultiLock> {
    for (let attempt = 0; attempt <= this.retries; attempt++) {
      const token = crypto.randomBytes(20).toString('hex');
      const start = performance.now();

      const answers = await Promise.allSettled(
        this.nodes.map((n) => n.set(resource, token, 'PX', ttlMs, 'NX')),
      );

      const replies = answers.flatMap((a) => (a.status === 'fulfilled' ? [a.value] : []));
      const votes = replies.filter((v) => v === 'OK').length;
      const quorum = Math.floor(replies.length / 2) + 1;
      const validUntil = start + ttlMs - (ttlMs * this.drift + 2);

      if (votes >= quorum && performance.now() < validUntil) {
        return { resource, token, validUntil };
      }

      await this.release({ resource, token });
      await new Promise((r) => setTimeout(r, this.delay * (0.5 + Math.random())));
    }
    throw new Error(`could not lock ${resource}`);
  }

  async release({ resource, token }: Pick<MultiLock, 'resource' | 'token'>): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, resource, token)));
  }

  /** `fn` gets a function that throws once the lock is no longer safe to rely on. */
  async using<T>(resource: string, ttlMs: number, fn: (check: () => void) => Promise<T>): Promise<T> {
    const lock = await this.acquire(resource, ttlMs);
    const check = () => {
      if (performance.now() >= lock.validUntil) throw new Error(`${resource}: validity over`);
    };
    try {
      const out = await fn(check);
      check();
      return out;
    } finally {
      await this.release(lock);
    }
  }
}
