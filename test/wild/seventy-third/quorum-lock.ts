import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

// two instances per data centre, no replication between them
const NODES = (
  process.env.LOCK_NODES ??
  'redis://lock-a1:6379,redis://lock-a2:6379,redis://lock-b1:6379,redis://lock-b2:6379'
).split(',');

const DEL_IF_OWNER = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class LockUnavailable extends Error {
  constructor(resource: string, attempts: number) {
    super(`could not lock ${resource} after ${attempts} attempts`);
    this.name = 'LockUnavailable';
  }
}

export interface QuorumLockOptions {
  ttlMs?: number;
  attempts?: number;
  backoffMs?: number;
}

export class QuorumLock {
  private readonly nodes: Redis[];

  constructor(urls: string[] = NODES) {
    this.nodes = urls.map(
      (url) =>
        new Redis(url, {
          commandTimeout: 150,
          maxRetriesPerRequest: 0,
          enableOfflineQueue: false,
          autoResendUnfulfilledCommands: false,
        }),
    );
    for (const node of this.nodes) node.on('error', () => {});
  }

  /**
   * Runs `critical` while the lock is held. The signal fires when the validity
   * of the lock is used up; `critical` has to be done (or give up) by then.
   */
  async run<T>(
    resource: string,
    critical: (signal: AbortSignal) => Promise<T>,
    { ttlMs = 10_000, attempts = 5, backoffMs = 200 }: QuorumLockOptions = {},
  ): Promise<T> {
    const token = randomBytes(20).toString('hex');
    const drift = Math.ceil(ttlMs * 0.01) + 2;

    for (let i = 0; i < attempts; i++) {
      const startedAt = performance.now();
      const votes = await this.collect((n) => n.set(resource, token, 'PX', ttlMs, 'NX'), 'OK');
      const validity = Math.floor(ttlMs - (performance.now() - startedAt) - drift);

      if (votes >= this.nodes.length / 2 && validity > 0) {
        const signal = AbortSignal.timeout(validity);
        try {
          return await critical(signal);
        } finally {
          await this.unlock(resource, token);
        }
      }

      await this.unlock(resource, token);
      await sleep(backoffMs / 2 + Math.random() * backoffMs);
    }

    throw new LockUnavailable(resource, attempts);
  }

  private async unlock(resource: string, token: string): Promise<void> {
    await this.collect((n) => n.eval(DEL_IF_OWNER, 1, resource, token), 1);
  }

  private async collect(send: (node: Redis) => Promise<unknown>, wanted: unknown): Promise<number> {
    const replies = await Promise.allSettled(this.nodes.map(send));
    return replies.filter((r) => r.status === 'fulfilled' && r.value === wanted).length;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.quit()));
  }
}
