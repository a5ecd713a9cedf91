import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

export interface QuorumLock {
  resource: string;
  value: string;
  /** compare with performance.now() */
  validUntil: number;
}

export interface QuorumOptions {
  retryCount?: number;
  retryDelay?: number;
  driftFactor?: number;
}

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

// A server that does not answer must not hold up the others.
function inTime<T>(reply: Promise<T>, ms = 300): Promise<T> {
  return Promise.race([
    reply,
    sleep(ms, undefined, { ref: false }).then(() => {
      throw new Error('no answer');
    }),
  ]);
}

/** Lock over several independent Redis servers, for the document editor. */
export class DocumentQuorum {
  private readonly clients: Client[];
  private readonly options: Required<QuorumOptions>;

  constructor(clients: Client[], options: QuorumOptions = {}) {
    this.clients = clients;
    this.options = { retryCount: 5, retryDelay: 200, driftFactor: 0.01, ...options };
  }

  async lock(resource: string, ttl: number): Promise<QuorumLock> {
    const { retryCount, retryDelay, driftFactor } = this.options;
    const needed = Math.floor(this.clients.length / 2) + 1;
    const drift = Math.ceil(ttl * driftFactor) + 2;

    for (let attempt = 0; attempt <= retryCount; attempt++) {
      const value = randomBytes(16).toString('hex');
      const results = await Promise.allSettled(
        this.clients.map((client) =>
          inTime(client.set(resource, value, { condition: 'NX', expiration: { type: 'PX', value: ttl } })),
        ),
      );
      const acquiredAt = performance.now();
      const granted = results.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;

      if (granted >= needed) {
        return { resource, value, validUntil: acquiredAt + ttl - drift };
      }

      await this.unlock({ resource, value, validUntil: 0 });
      await sleep(Math.random() * retryDelay);
    }
    throw new Error(`could not lock ${resource}`);
  }

  async unlock(lock: QuorumLock): Promise<void> {
    lock.validUntil = 0;
    await Promise.allSettled(
      this.clients.map((client) => inTime(client.eval(UNLOCK, { keys: [lock.resource], arguments: [lock.value] }))),
    );
  }

  isValid(lock: QuorumLock): boolean {
    return performance.now() < lock.validUntil;
  }
}
