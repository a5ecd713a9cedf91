import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

const drift = (ttlMs: number) => ttlMs * 0.01 + 2;
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** True if the command answered with `wanted` in time. Never rejects. */
async function says(command: Promise<unknown>, wanted: unknown, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return (await Promise.race([command, late])) === wanted;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

class Lease {
  #queue: Promise<unknown> = Promise.resolve();
  #released = false;

  constructor(
    private readonly manager: Manager,
    private readonly key: string,
    private readonly token: string,
    private until: number,
  ) {}

  remaining(): number {
    return this.#released ? 0 : Math.max(0, this.until - performance.now());
  }

  /** Extensions of one lease run one after the other. */
  extend(ttlMs: number): Promise<this> {
    const turn = this.#queue.then(() => this.#extend(ttlMs));
    this.#queue = turn.catch(() => {});
    return turn;
  }

  async #extend(ttlMs: number): Promise<this> {
    if (this.remaining() === 0) throw new Error(`lease on ${this.key} is over`);
    const until = performance.now() + ttlMs - drift(ttlMs);
    // A shorter TTL counts from the moment that the first node may have it.
    this.until = Math.min(this.until, until);
    const yes = await this.manager.ask((node) => node.eval(EXTEND, 1, this.key, this.token, ttlMs), 1, ttlMs);
    if (yes < this.manager.quorum) throw new Error(`lease on ${this.key} was extended on ${yes} nodes only`);
    this.until = until;
    if (this.remaining() === 0) throw new Error(`lease on ${this.key} is over`);
    return this;
  }

  async release(): Promise<void> {
    this.#released = true;
    await this.manager.wipe(this.key, this.token);
  }
}

class Manager {
  readonly quorum: number;

  constructor(private readonly nodes: Redis[], private readonly attempts = 5) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async ask(send: (node: Redis) => Promise<unknown>, wanted: unknown, ttlMs: number): Promise<number> {
    const ms = Math.max(20, ttlMs / 5);
    const answers = await Promise.all(this.nodes.map((node) => says(send(node), wanted, ms)));
    return answers.filter(Boolean).length;
  }

  async wipe(key: string, token: string): Promise<void> {
    await this.ask((node) => node.eval(RELEASE, 1, key, token), 1, 1000);
  }

  async acquire(resource: string, ttlMs: number): Promise<Lease | null> {
    for (let i = 0; i < this.attempts; i++) {
      if (i > 0) await sleep(50 + Math.random() * 100);
      const token = randomBytes(16).toString('hex');
      const until = performance.now() + ttlMs - drift(ttlMs);
      const yes = await this.ask((node) => node.set(resource, token, 'PX', ttlMs, 'NX'), 'OK', ttlMs);
      if (yes >= this.quorum && performance.now() < until) return new Lease(this, resource, token, until);
      await this.wipe(resource, token);
    }
    return null;
  }
}

export const make: MakeLock = ({ nodes }) => new Manager(nodes);
