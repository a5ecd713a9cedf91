import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const IF_MINE_DELETE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
  return 0
`;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function tally(commands: Promise<unknown>[], wanted: unknown, ms: number): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<null>((resolve) => (timer = setTimeout(resolve, ms, null)));
  const votes = commands.map((command) => Promise.race([command.catch(() => null), timeUp]));
  const answers = await Promise.all(votes);
  clearTimeout(timer);
  return answers.filter((answer) => answer === wanted).length;
}

class Guard implements AsyncDisposable {
  readonly #nodes: Redis[];
  readonly #token: string;
  readonly #until: number;
  readonly #lost = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #over = false;

  constructor(nodes: Redis[], readonly resource: string, token: string, until: number) {
    this.#nodes = nodes;
    this.#token = token;
    this.#until = until;
    this.#timer = setTimeout(() => this.#lost.abort(new Error('lock expired')), until - performance.now());
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  remainingMs(): number {
    return this.#over ? 0 : Math.max(0, this.#until - performance.now());
  }

  isHeld(): boolean {
    return this.remainingMs() > 0;
  }

  async release(): Promise<void> {
    this.#over = true;
    clearTimeout(this.#timer);
    await tally(this.#nodes.map((node) => node.eval(IF_MINE_DELETE, 1, this.resource, this.#token)), 1, 500);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

async function guard(nodes: Redis[], resource: string, ttlMs: number, tries = 6): Promise<Guard> {
  const quorum = Math.floor(nodes.length / 2) + 1;
  for (let n = 0; n < tries; n++) {
    if (n > 0) await pause(40 + Math.random() * 120);
    const token = randomUUID();
    const until = performance.now() + ttlMs * 0.99 - 2;
    const sent = nodes.map((node) => node.set(resource, token, 'PX', ttlMs, 'NX'));
    const votes = await tally(sent, 'OK', Math.max(20, ttlMs / 4));
    if (votes >= quorum && performance.now() < until) return new Guard(nodes, resource, token, until);
    await tally(nodes.map((node) => node.eval(IF_MINE_DELETE, 1, resource, token)), 1, Math.max(20, ttlMs / 4));
  }
  throw new Error(`${resource} is taken`);
}

export const make: MakeLock = ({ nodes }) => ({
  // The routine may ask `isHeld()` before each step, or listen to `signal`.
  async using(resource, ttlMs, routine) {
    await using held = await guard(nodes, resource, ttlMs);
    await (routine as unknown as (lock: Guard) => Promise<void>)(held);
  },
});
