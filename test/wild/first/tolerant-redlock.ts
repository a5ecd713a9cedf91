import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const SCRIPT = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

interface Held {
  key: string;
  token: string;
  validUntil: number;
}

/** Keeps working while some of the Redis nodes are being upgraded. */
export class TolerantRedlock {
  private readonly clients;

  constructor(urls: string[]) {
    this.clients = urls.map((url) => {
      const client = createClient({ url, disableOfflineQueue: true, commandOptions: { timeout: 300 } });
      client.on('error', () => {});
      client.connect().catch(() => {});
      return client;
    });
  }

  async acquire(key: string, ttl: number): Promise<Held | undefined> {
    const token = randomUUID();
    const started = performance.now();
    const replies = await Promise.allSettled(this.clients.map((c) => c.set(key, token, { NX: true, PX: ttl })));
    const answered = replies.flatMap((reply) => (reply.status === 'fulfilled' ? [reply.value] : []));
    const granted = answered.filter((value) => value === 'OK').length;
    const held = { key, token, validUntil: started + ttl - ttl * 0.01 - 2 };
    if (granted > answered.length / 2 && this.isValid(held)) return held;
    await this.release(held);
    return undefined;
  }

  isValid(held: Held): boolean {
    return performance.now() < held.validUntil;
  }

  async release(held: Held): Promise<void> {
    held.validUntil = 0;
    await Promise.allSettled(this.clients.map((c) => c.eval(SCRIPT, { keys: [held.key], arguments: [held.token] })));
  }
}
