import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const SCRIPT_RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;
const SCRIPT_EXTEND = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

const PER_NODE_MS = 500;

type Ballot = 'yes' | 'no' | 'absent';

async function ballot(answer: Promise<unknown>, expected: unknown): Promise<Ballot> {
  let timer: NodeJS.Timeout | undefined;
  const absent = new Promise<Ballot>((resolve) => {
    timer = setTimeout(resolve, PER_NODE_MS, 'absent');
  });
  const vote = answer.then<Ballot, Ballot>(
    (value) => (value === expected ? 'yes' : 'no'),
    () => 'absent',
  );
  const result = await Promise.race([vote, absent]);
  clearTimeout(timer);
  return result;
}

class Election {
  readonly #ballots: readonly Ballot[];

  constructor(ballots: readonly Ballot[]) {
    this.#ballots = ballots;
  }

  static async hold(nodes: readonly Redis[], expected: unknown, ask: (node: Redis) => Promise<unknown>) {
    return new Election(await Promise.all(nodes.map((node) => ballot(ask(node), expected))));
  }

  #count(kind: Ballot): number {
    return this.#ballots.filter((each) => each === kind).length;
  }

  get won(): boolean {
    const cast = this.#ballots.length - this.#count('absent');
    return cast > 0 && this.#count('yes') >= Math.floor(cast / 2) + 1;
  }
}

class Mandate {
  readonly #nodes: readonly Redis[];
  readonly #key: string;
  readonly #token = randomUUID();
  #until = 0;

  constructor(nodes: readonly Redis[], key: string) {
    this.#nodes = nodes;
    this.#key = key;
  }

  get expiresAt(): number {
    return this.#until;
  }

  async seek(ttlMs: number): Promise<boolean> {
    this.#until = Mandate.#end(ttlMs);
    const election = await Election.hold(this.#nodes, 'OK', (node) =>
      node.set(this.#key, this.#token, 'PX', ttlMs, 'NX'),
    );
    if (election.won && Date.now() < this.#until) return true;
    await this.release();
    return false;
  }

  async extend(ttlMs: number): Promise<boolean> {
    const until = Mandate.#end(ttlMs);
    if (Date.now() >= this.#until) return false;
    const election = await Election.hold(this.#nodes, 1, (node) =>
      node.eval(SCRIPT_EXTEND, 1, this.#key, this.#token, ttlMs),
    );
    if (!election.won || Date.now() >= this.#until) return false;
    this.#until = Math.max(this.#until, until);
    return true;
  }

  async release(): Promise<void> {
    this.#until = 0;
    await Election.hold(this.#nodes, 1, (node) => node.eval(SCRIPT_RELEASE, 1, this.#key, this.#token));
  }

  static #end(ttlMs: number): number {
    return Date.now() + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    for (let attempt = 0; attempt < 25; attempt += 1) {
      const mandate = new Mandate(nodes, `mandate:${resource}`);
      if (await mandate.seek(ttlMs)) return mandate;
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 150));
    }
    return null;
  },
});
