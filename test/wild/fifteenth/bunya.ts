import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const HEARTBEAT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

interface Tally {
  readonly yes: number;
  readonly no: number;
}

async function tally(requests: Promise<boolean>[], limitMs: number): Promise<Tally> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, limitMs, undefined);
  });
  const votes = await Promise.all(requests.map((request) => Promise.race([request.catch(() => undefined), limit])));
  clearTimeout(timer);
  return { yes: votes.filter((vote) => vote === true).length, no: votes.filter((vote) => vote === false).length };
}

/** Renews a lock by heartbeats until it is stopped, and aborts its signal when the lock was lost. */
class Heart {
  readonly #beat: () => Promise<Tally>;
  readonly #quorum: number;
  readonly #lost = new AbortController();
  readonly #interval: NodeJS.Timeout;
  #beating = false;

  constructor(beat: () => Promise<Tally>, everyMs: number, quorum: number) {
    this.#beat = beat;
    this.#quorum = quorum;
    this.#interval = setInterval(() => {
      if (!this.#beating) void this.#pump();
    }, everyMs);
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  async #pump(): Promise<void> {
    this.#beating = true;
    const { no } = await this.#beat();
    this.#beating = false;
    if (no < this.#quorum) return;
    this.stop();
    this.#lost.abort(new Error('the lock belongs to another'));
  }

  stop(): void {
    clearInterval(this.#interval);
  }
}

export const make: MakeLock = ({ nodes }) => {
  const quorum = Math.floor(nodes.length / 2) + 1;
  const ask = (limitMs: number, request: (node: Redis) => Promise<unknown>, expected: unknown) =>
    tally(
      nodes.map((node) => request(node).then((reply) => reply === expected)),
      limitMs,
    );

  const unlock = (key: string, token: string) => ask(400, (node) => node.eval(UNLOCK, 1, key, token), 1);

  const lock = async (key: string, ttlMs: number): Promise<string> => {
    const giveUpAt = Date.now() + 4 * ttlMs;
    while (Date.now() < giveUpAt) {
      const token = randomUUID();
      const until = Date.now() + ttlMs * 0.99 - 2;
      const { yes } = await ask(ttlMs / 8, (node) => node.set(key, token, 'PX', ttlMs, 'NX'), 'OK');
      // The first heartbeat has to come before the end.
      if (yes >= quorum && Date.now() < until - ttlMs / 2) return token;
      await unlock(key, token);
      await sleep(Math.round(50 + Math.random() * 150));
    }
    throw new Error(`could not lock ${key}`);
  };

  return {
    async using(resource, ttlMs, routine) {
      const key = `heart:${resource}`;
      const token = await lock(key, ttlMs);
      const beat = () => ask(ttlMs / 8, (node) => node.eval(HEARTBEAT, 1, key, token, ttlMs), 1);
      const heart = new Heart(beat, ttlMs / 4, quorum);
      try {
        return await routine(heart.signal);
      } finally {
        heart.stop();
        await unlock(key, token);
      }
    },
  };
};
