import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const COMPARE_AND_DELETE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end`;

export interface Grant {
  resource: string;
  token: string;
  expiresAt: number;
}

/** Lock over the five Redis masters of the platform (LOCK_NODES=host:port,host:port,…). */
export class ClusterLock {
  private readonly clients: Redis[];
  private readonly required: number;

  constructor(nodes: string[] = process.env.LOCK_NODES?.split(',') ?? []) {
    this.clients = nodes.map((address) => {
      const [host, port] = address.split(':');
      const client = new Redis({ host, port: Number(port), commandTimeout: 500, maxRetriesPerRequest: 0 });
      client.on('error', () => {});
      return client;
    });
    this.required = Math.floor(this.clients.length / 2);
  }

  async acquire(resource: string, ttl: number): Promise<Grant | null> {
    const token = randomUUID();
    const start = performance.now();
    const replies = await Promise.allSettled(this.clients.map((c) => c.set(resource, token, 'PX', ttl, 'NX')));
    const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const expiresAt = start + ttl - ttl * 0.01 - 2;
    const grant = { resource, token, expiresAt };
    if (granted >= this.required && performance.now() < expiresAt) return grant;
    await this.release(grant);
    return null;
  }

  isValid(grant: Grant): boolean {
    return performance.now() < grant.expiresAt;
  }

  async release({ resource, token }: Grant): Promise<void> {
    await Promise.allSettled(this.clients.map((c) => c.eval(COMPARE_AND_DELETE, 1, resource, token)));
  }
}
