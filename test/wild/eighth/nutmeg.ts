import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const SCRIPTS = {
  release: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  renew: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
};

class Cluster {
  readonly nodes: readonly Redis[];
  readonly quorum: number;

  constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async tally(command: (node: Redis) => Promise<unknown>): Promise<number> {
    const votes = await Promise.all(this.nodes.map((node) => this.one(command(node))));
    return votes.reduce<number>((sum, vote) => sum + vote, 0);
  }

  private one(command: Promise<unknown>): Promise<0 | 1> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(0), 150);
      command.then(
        (reply) => {
          clearTimeout(timer);
          resolve(reply === 'OK' || reply === 1 ? 1 : 0);
        },
        () => {
          clearTimeout(timer);
          resolve(0);
        },
      );
    });
  }
}

class Lease implements AsyncDisposable {
  readonly #cluster: Cluster;
  readonly #key: string;
  readonly #token: string;
  readonly #ttl: number;
  readonly #abort = new AbortController();
  #deadline: number;
  #closed = false;
  #expiry: NodeJS.Timeout | undefined;
  #beat: NodeJS.Timeout | undefined;

  constructor(cluster: Cluster, key: string, token: string, ttl: number, deadline: number) {
    this.#cluster = cluster;
    this.#key = key;
    this.#token = token;
    this.#ttl = ttl;
    this.#deadline = deadline;
    this.#arm();
    this.#schedule();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  #arm(): void {
    clearTimeout(this.#expiry);
    const left = Math.max(0, Math.floor(this.#deadline - performance.now()));
    this.#expiry = setTimeout(() => this.#abort.abort(), left);
  }

  #schedule(): void {
    this.#beat = setTimeout(() => void this.#renew(), Math.floor(this.#ttl / 3));
  }

  async #renew(): Promise<void> {
    const start = performance.now();
    if (this.#closed || start >= this.#deadline) return;
    const votes = await this.#cluster.tally((node) => node.eval(SCRIPTS.renew, 1, this.#key, this.#token, this.#ttl));
    if (this.#closed || performance.now() >= this.#deadline) return;
    if (votes >= this.#cluster.quorum) {
      this.#deadline = start + validity(this.#ttl);
      this.#arm();
    }
    this.#schedule();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#expiry);
    clearTimeout(this.#beat);
    await this.#cluster.tally((node) => node.eval(SCRIPTS.release, 1, this.#key, this.#token));
  }
}

function validity(ttl: number): number {
  return ttl - (ttl * 0.01 + 2);
}

async function lease(cluster: Cluster, key: string, ttl: number): Promise<Lease> {
  for (let attempt = 0; attempt < 5; attempt++) {
    const token = randomUUID();
    const start = performance.now();
    const votes = await cluster.tally((node) => node.set(key, token, 'PX', ttl, 'NX'));
    const deadline = start + validity(ttl);
    if (votes >= cluster.quorum && performance.now() < deadline) return new Lease(cluster, key, token, ttl, deadline);
    await cluster.tally((node) => node.eval(SCRIPTS.release, 1, key, token));
    await sleep(60 + Math.random() * 140);
  }
  throw new Error(`could not lock ${key}`);
}

export const make: MakeLock = ({ nodes }) => {
  const cluster = new Cluster(nodes);
  return {
    async using(resource: string, ttl: number, routine: (signal?: AbortSignal) => Promise<void>) {
      await using held = await lease(cluster, resource, ttl);
      await routine(held.signal);
    },
  };
};
