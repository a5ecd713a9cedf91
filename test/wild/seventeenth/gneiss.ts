import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const KEEP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const FREE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const bounded = (work: Promise<boolean>, ms: number) =>
  new Promise<boolean>((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    work
      .then(resolve, () => resolve(false))
      .finally(() => clearTimeout(timer));
  });

class Tenancy {
  readonly #abort = new AbortController();
  readonly #token = randomUUID();
  #end = 0;
  #left = false;
  #renewal: ReturnType<typeof setTimeout> | undefined;
  #expiry: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly nodes: Redis[],
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  async enter(): Promise<boolean> {
    const start = performance.now();
    const votes = await this.#votes(async (node) => {
      const ok = (await node.set(this.key, this.#token, 'PX', this.ttl, 'NX')) === 'OK';
      if (ok && this.#left) node.eval(FREE, 1, this.key, this.#token).catch(() => {});
      return ok;
    });
    this.#end = start + this.#valid();
    return votes > this.nodes.length / 2 && performance.now() < this.#end - this.ttl / 2;
  }

  keepUp(): void {
    this.#watchExpiry();
    this.#renewal = setTimeout(() => void this.#renew(), this.ttl / 4);
  }

  async leave(): Promise<void> {
    this.#left = true;
    this.#stop();
    for (let round = 0; round < 2; round++) {
      const votes = await this.#votes(async (node) => {
        await node.eval(FREE, 1, this.key, this.#token);
        return true;
      });
      if (votes === this.nodes.length) return;
    }
  }

  async #renew(): Promise<void> {
    const start = performance.now();
    const votes = await this.#votes(async (node) => (await node.eval(KEEP, 1, this.key, this.#token, this.ttl)) === 1);
    if (this.#left || this.signal.aborted) return;
    const isKept = votes > this.nodes.length / 2;
    if (isKept && performance.now() < this.#end) {
      this.#end = start + this.#valid();
      this.#watchExpiry();
    }
    this.#renewal = setTimeout(() => void this.#renew(), isKept ? this.ttl / 4 : this.ttl / 20);
  }

  #watchExpiry(): void {
    clearTimeout(this.#expiry);
    this.#expiry = setTimeout(
      () => {
        this.#stop();
        this.#abort.abort();
      },
      Math.max(0, Math.floor(this.#end - performance.now()) - 5),
    );
  }

  #stop(): void {
    clearTimeout(this.#renewal);
    clearTimeout(this.#expiry);
  }

  #valid(): number {
    return this.ttl - Math.ceil(this.ttl * 0.01) - 2;
  }

  async #votes(ask: (node: Redis) => Promise<boolean>): Promise<number> {
    const votes = await Promise.all(this.nodes.map((node) => bounded(ask(node), this.ttl / 6)));
    return votes.filter(Boolean).length;
  }
}

async function tenancyOf(nodes: Redis[], key: string, ttl: number): Promise<Tenancy> {
  const until = performance.now() + 3 * ttl;
  while (performance.now() < until) {
    const tenancy = new Tenancy(nodes, key, ttl);
    if (await tenancy.enter()) return tenancy;
    await tenancy.leave();
    await sleep(ttl * (0.03 + 0.1 * Math.random()));
  }
  throw new Error(`no tenancy of ${key}`);
}

export const make: MakeLock = ({ nodes }) => ({
  async using(resource, ttlMs, routine) {
    const tenancy = await tenancyOf(nodes, resource, ttlMs);
    tenancy.keepUp();
    try {
      return routine(tenancy.signal);
    } finally {
      await tenancy.leave();
    }
  },
});
