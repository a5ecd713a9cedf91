import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

interface NodeSetting {
  readonly host: string;
  readonly port: number;
}

interface Vote {
  readonly key: string;
  readonly token: string;
  readonly validUntil: number;
}

export class Quorum {
  private readonly nodes: Redis[];
  private readonly ttlMs: number;

  constructor({ nodes, ttlMs }: { nodes: NodeSetting[]; ttlMs: number }) {
    this.ttlMs = ttlMs;
    this.nodes = nodes.map(({ host, port }) =>
      new Redis({ host, port, commandTimeout: 200, maxRetriesPerRequest: 1 }).on('error', () => {}),
    );
  }

  async acquire(key: string): Promise<Vote | null> {
    const lock = { key, token: randomUUID(), validUntil: Date.now() + this.ttlMs * 0.99 - 2 };
    const votes = await Promise.allSettled(this.nodes.map((it) => it.set(key, lock.token, 'PX', this.ttlMs, 'NX')));
    const granted = votes.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
    if (granted > this.nodes.length / 2 && Date.now() < lock.validUntil) return lock;
    await this.release(lock);
    return null;
  }

  async release({ key, token }: Vote): Promise<void> {
    await Promise.allSettled(this.nodes.map((it) => it.eval(RELEASE, 1, key, token)));
  }
}
