import { createHash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/** A Lua script that is sent by digest, and in full only to nodes that do not know it. */
class Script {
  private readonly sha: string;

  constructor(private readonly source: string) {
    this.sha = createHash('sha1').update(source).digest('hex');
  }

  async run(node: Redis, key: string, ...args: (string | number)[]): Promise<boolean> {
    try {
      return (await node.evalsha(this.sha, 1, key, ...args)) === 1;
    } catch (error) {
      if (!String((error as Error)?.message).startsWith('NOSCRIPT')) throw error;
      return (await node.eval(this.source, 1, key, ...args)) === 1;
    }
  }
}

const acquireScript = new Script(`
  if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return 1
  end
  return 0
`);

const extendScript = new Script(`
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return 1
  end
  return 0
`);

const releaseScript = new Script(`
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`);

interface Options {
  /** Part of the TTL that a round of requests may take. */
  patience: number;
  /** How many TTLs to wait for another holder. */
  waitTtls: number;
  driftFactor: number;
}

const defaults: Options = { patience: 0.3, waitTtls: 3, driftFactor: 0.01 };

type State = { key: string; value: string; goodUntil: number; ttlMs: number; done: boolean };

class Held {
  constructor(
    private readonly owner: DigestLock,
    readonly state: State,
  ) {}

  isHeld(): boolean {
    return !this.state.done && performance.now() < this.state.goodUntil;
  }

  extend(ttlMs: number): Promise<boolean> {
    return this.owner.prolong(this.state, ttlMs);
  }

  release(): Promise<void> {
    return this.owner.giveUp(this.state);
  }
}

class DigestLock {
  constructor(
    private readonly nodes: Redis[],
    private readonly options: Options = defaults,
  ) {}

  async acquire(resource: string, ttlMs: number): Promise<Held | undefined> {
    const deadline = performance.now() + ttlMs * this.options.waitTtls;
    for (let round = 0; performance.now() < deadline; round += 1) {
      if (round > 0) await pause(ttlMs * (0.04 + Math.random() * 0.08));
      const state: State = { key: `dlock/${resource}`, value: randomUUID(), goodUntil: 0, ttlMs, done: false };
      const before = performance.now();
      const votes = await this.round(ttlMs * this.options.patience, async (node) => {
        const vote = await acquireScript.run(node, state.key, state.value, ttlMs);
        if (vote && state.done) releaseScript.run(node, state.key, state.value).catch(() => undefined);
        return vote;
      });
      state.goodUntil = this.goodUntil(before, ttlMs);
      if (this.isMajority(votes) && performance.now() < state.goodUntil) return new Held(this, state);
      await this.giveUp(state);
    }
    return undefined;
  }

  async prolong(state: State, ttlMs: number): Promise<boolean> {
    if (state.done || performance.now() >= state.goodUntil) return false;
    const before = performance.now();
    const votes = await this.round(ttlMs * this.options.patience, (node) =>
      extendScript.run(node, state.key, state.value, ttlMs),
    );
    if (!this.isMajority(votes) || state.done || performance.now() >= state.goodUntil) return false;
    state.goodUntil = Math.max(state.goodUntil, this.goodUntil(before, ttlMs));
    state.ttlMs = ttlMs;
    return true;
  }

  async giveUp(state: State): Promise<void> {
    state.done = true;
    const confirmed = new Set<Redis>();
    for (let tries = 0; tries < 2 && confirmed.size < this.nodes.length; tries += 1)
      await this.round(state.ttlMs / 8, async (node) => {
        if (!confirmed.has(node)) await releaseScript.run(node, state.key, state.value);
        confirmed.add(node);
        return true;
      });
  }

  private goodUntil(before: number, ttlMs: number): number {
    return before + ttlMs - (Math.ceil(ttlMs * this.options.driftFactor) + 2);
  }

  private isMajority(votes: number): boolean {
    return votes * 2 > this.nodes.length;
  }

  /** Asks all nodes; counts who said yes before the time was up. */
  private async round(ms: number, ask: (node: Redis) => Promise<boolean>): Promise<number> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeUp = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, ms, false);
    });
    const answers = await Promise.all(
      this.nodes.map((node) => Promise.race([ask(node).catch(() => false), timeUp])),
    );
    clearTimeout(timer);
    return answers.filter(Boolean).length;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

export const make: MakeLock = ({ nodes }) => new DigestLock(nodes);
