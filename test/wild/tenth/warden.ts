import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';

const FREE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

interface Key {
  resource: string;
  isValid(): boolean;
  release(): Promise<void>;
}

/**
 * Guards resources on N independent redis servers.
 * Emits 'retry' (resource, attempt) and 'nodeError' (error).
 */
export default class Warden extends EventEmitter {
  #nodes: Redis[];
  #quorum: number;
  #maxAttempts: number;
  #baseDelay: number;

  constructor({ nodes, maxAttempts = 12, baseDelay = 60 }: { nodes: Redis[]; maxAttempts?: number; baseDelay?: number }) {
    super();
    this.#nodes = nodes;
    this.#quorum = Math.floor(nodes.length / 2) + 1;
    this.#maxAttempts = maxAttempts;
    this.#baseDelay = baseDelay;
  }

  async acquire(resource: string, ttlMs: number): Promise<Key> {
    const name = `warden:${resource}`;
    const patience = Math.min(200, ttlMs / 3);
    let votes = 0;
    let attempt = 0;

    while (attempt < this.#maxAttempts) {
      const token = randomUUID();
      const begun = performance.now();

      await Promise.all(
        this.#nodes.map(async (node) => {
          const reply = await this.#send(patience, node.set(name, token, 'PX', ttlMs, 'NX'));
          if (reply === 'OK') votes++;
        }),
      );

      const validUntil = begun + ttlMs - (Math.round(ttlMs * 0.01) + 2);
      if (votes >= this.#quorum && performance.now() < validUntil) {
        return this.#key(resource, name, token, validUntil);
      }

      // nobody wins a split vote: give back what we got and let the others have a go
      await this.#free(patience, name, token);
      attempt++;
      this.emit('retry', resource, attempt);
      await new Promise((r) => setTimeout(r, this.#baseDelay * (1 + Math.random())));
    }

    throw new Error(`${resource} is guarded by somebody else`);
  }

  #key(resource: string, name: string, token: string, validUntil: number): Key {
    let returned = false;
    return {
      resource,
      isValid: () => !returned && performance.now() < validUntil,
      release: async () => {
        if (returned) return;
        returned = true;
        await this.#free(500, name, token);
      },
    };
  }

  async #free(patience: number, name: string, token: string): Promise<void> {
    await Promise.all(this.#nodes.map((node) => this.#send(patience, node.eval(FREE, 1, name, token))));
  }

  async #send<T>(patience: number, promise: Promise<T>): Promise<T | undefined> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await Promise.race([
        promise,
        new Promise<never>((_, reject) => {
          timer = setTimeout(() => reject(new Error('redis node is slow')), patience);
        }),
      ]);
    } catch (err) {
      this.emit('nodeError', err);
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Warden({ nodes });
