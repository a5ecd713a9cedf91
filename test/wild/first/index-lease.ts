import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

export interface IndexLeaseOptions {
  hosts: string[];
  ttl?: number;
}

export class IndexLease {
  readonly #nodes: Redis[];
  readonly #ttl: number;

  constructor({ hosts, ttl = 8_000 }: IndexLeaseOptions) {
    this.#ttl = ttl;
    this.#nodes = hosts.map((host) => new Redis(host, { commandTimeout: 400, maxRetriesPerRequest: 0 }));
    for (const node of this.#nodes) node.on('error', () => {});
  }

  async acquire(index: string) {
    const token = randomUUID();
    const key = `index:${index}`;
    const sent = performance.now();
    const votes = await this.#vote(async (node) => (await node.set(key, token, 'PX', this.#ttl, 'NX')) === 'OK');
    let validUntil = this.#validFrom(sent);
    const release = async () => {
      validUntil = 0;
      await this.#vote(async (node) => (await node.eval(RELEASE, 1, key, token)) === 1);
    };
    if (votes < this.#quorum || performance.now() >= validUntil) {
      await release();
      return null;
    }
    return {
      isValid: () => performance.now() < validUntil,
      release,
      /** Has to be called every few seconds while the index is being built. */
      extend: async (): Promise<boolean> => {
        const asked = performance.now();
        const extended = await this.#vote(async (node) => (await node.pexpire(key, this.#ttl)) === 1);
        if (extended < this.#quorum) return false;
        validUntil = this.#validFrom(asked);
        return true;
      },
    };
  }

  get #quorum() {
    return Math.floor(this.#nodes.length / 2) + 1;
  }

  #validFrom(time: number) {
    return time + this.#ttl - Math.ceil(this.#ttl * 0.01) - 2;
  }

  async #vote(ask: (node: Redis) => Promise<boolean>): Promise<number> {
    const votes = await Promise.all(this.#nodes.map((node) => ask(node).catch(() => false)));
    return votes.filter((yes) => yes).length;
  }
}
