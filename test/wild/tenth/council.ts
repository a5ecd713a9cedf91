import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const DELETE_IF_MINE = `
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

const EXTEND_IF_MINE = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then redis.call("pexpire", KEYS[1], ARGV[2]) end
return 1`;

const majorityOf = (nodes: readonly Redis[]) => Math.floor(nodes.length / 2) + 1;
const validity = (ttlMs: number) => ttlMs - ttlMs * 0.01 - 2;

/** the nodes that gave the expected reply in time */
async function agreeing(
  nodes: readonly Redis[],
  expected: unknown,
  timeoutMs: number,
  command: (node: Redis) => Promise<unknown>,
): Promise<Redis[]> {
  const yes = await Promise.all(
    nodes.map(
      (node) =>
        new Promise<boolean>((resolve) => {
          const timer = setTimeout(resolve, timeoutMs, false);
          command(node)
            .then((reply) => reply === expected, () => false)
            .then((ok) => {
              clearTimeout(timer);
              resolve(ok);
            });
        }),
    ),
  );
  return nodes.filter((_, i) => yes[i]);
}

export class Mandate {
  #closed = false;
  #all: readonly Redis[];
  #voters: readonly Redis[];
  #key: string;
  #token: string;
  #until: number;

  constructor(all: readonly Redis[], voters: readonly Redis[], key: string, token: string, until: number) {
    this.#all = all;
    this.#voters = voters;
    this.#key = key;
    this.#token = token;
    this.#until = until;
  }

  remaining(): number {
    return this.#closed ? 0 : Math.max(0, this.#until - performance.now());
  }

  isValid(): boolean {
    return this.remaining() > 0;
  }

  /** asks those who voted for us; the others don't have our key anyway */
  async extend(ttlMs: number): Promise<boolean> {
    if (!this.isValid()) return false;
    const from = performance.now();
    const still = await agreeing(this.#voters, 1, Math.min(200, ttlMs / 3), (node) =>
      node.eval(EXTEND_IF_MINE, 1, this.#key, this.#token, ttlMs),
    );
    if (still.length < majorityOf(this.#voters)) return false;
    this.#until = Math.max(this.#until, from + validity(ttlMs));
    return this.isValid();
  }

  async release(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await agreeing(this.#all, 1, 500, (node) => node.eval(DELETE_IF_MINE, 1, this.#key, this.#token));
  }
}

export class Council {
  #nodes: readonly Redis[];
  #attempts: number;

  constructor(nodes: readonly Redis[], attempts = 8) {
    this.#nodes = nodes;
    this.#attempts = attempts;
  }

  async acquire(resource: string, ttlMs: number): Promise<Mandate | null> {
    const key = `council:${resource}`;
    const timeoutMs = Math.min(200, ttlMs / 3);
    for (let attempt = 0; attempt < this.#attempts; attempt++) {
      const token = randomUUID();
      const from = performance.now();
      const voters = await agreeing(this.#nodes, 'OK', timeoutMs, (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      const until = from + validity(ttlMs);
      if (voters.length >= majorityOf(this.#nodes) && performance.now() < until) {
        return new Mandate(this.#nodes, voters, key, token, until);
      }
      await agreeing(this.#nodes, 1, timeoutMs, (node) => node.eval(DELETE_IF_MINE, 1, key, token));
      await sleep(50 * (attempt + 1) * (0.5 + Math.random()));
    }
    return null;
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Council(nodes);
