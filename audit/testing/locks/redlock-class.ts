import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

export class DistributedLock {
  private readonly clients: Redis[];

  constructor(clients: Redis[]) {
    this.clients = clients;
  }

  async acquire(resource: string, ttlMs: number): Promise<{ token: string; validUntil: number } | null> {
    const token = randomBytes(16).toString('hex');
    const started = performance.now();
    const startedWall = Date.now();
    const votes = await Promise.allSettled(this.clients.map((it) => it.set(resource, token, 'PX', ttlMs, 'NX')));
    const granted = votes.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
    const drift = ttlMs * 0.01 + 2;
    const validity = ttlMs - (performance.now() - started) - drift;
    if (granted >= Math.floor(this.clients.length / 2) + 1 && validity > 0)
      return { token, validUntil: startedWall + ttlMs - drift };
    await this.release(resource, token);
    return null;
  }

  async release(resource: string, token: string): Promise<void> {
    await Promise.allSettled(this.clients.map((it) => it.eval(UNLOCK, 1, resource, token)));
  }
}
