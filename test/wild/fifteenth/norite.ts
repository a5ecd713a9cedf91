import { randomUUID } from 'node:crypto';
import type { ChainableCommander, Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const COMPARE_AND_DELETE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const COMPARE_AND_EXPIRE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  local left = redis.call('pttl', KEYS[1])
  if left < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 1
end
return 0`;

/** Resolves as soon as the outcome is certain: with true once `needed` said yes, with false once that cannot be any more. */
function decide(votes: Promise<boolean>[], needed: number, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    let yes = 0;
    let no = 0;
    const finish = (outcome: boolean) => {
      clearTimeout(timer);
      resolve(outcome);
    };
    const timer = setTimeout(finish, ms, false);
    const register = (vote: boolean) => {
      if (vote) yes += 1;
      else no += 1;
      if (yes >= needed) finish(true);
      else if (no > votes.length - needed) finish(false);
    };
    for (const vote of votes) vote.then(register, () => register(false));
  });
}

/** Sets the key if it is free, and reads whose it is then. */
async function claim(node: Redis, key: string, token: string, ttlMs: number): Promise<boolean> {
  const transaction: ChainableCommander = node.multi().set(key, token, 'PX', ttlMs, 'NX').get(key);
  const replies = await transaction.exec();
  const [error, owner] = replies?.[1] ?? [new Error('discarded'), null];
  return error === null && owner === token;
}

export const make: MakeLock = ({ nodes }) => {
  const needed = Math.floor(nodes.length / 2) + 1;

  class Mutex {
    readonly #key: string;
    readonly #token = randomUUID();
    #expiresAt = 0;

    constructor(key: string) {
      this.#key = key;
    }

    async lock(ttlMs: number): Promise<boolean> {
      this.#expiresAt = Mutex.#certain(Date.now(), ttlMs);
      const claims = nodes.map((node) => claim(node, this.#key, this.#token, ttlMs));
      if ((await decide(claims, needed, Math.min(ttlMs / 3, 700))) && this.isHeld()) return true;
      await this.unlock();
      return false;
    }

    async unlock(): Promise<boolean> {
      this.#expiresAt = 0;
      return decide(this.#everywhere(COMPARE_AND_DELETE), needed, 700);
    }

    async extend(ttlMs: number): Promise<boolean> {
      if (!this.isHeld()) return false;
      const expiresAt = Mutex.#certain(Date.now(), ttlMs);
      const extended = await decide(this.#everywhere(COMPARE_AND_EXPIRE, ttlMs), needed, Math.min(ttlMs / 3, 700));
      if (!this.isHeld()) {
        await this.unlock();
        return false;
      }
      if (extended) this.#expiresAt = Math.max(this.#expiresAt, expiresAt);
      return extended;
    }

    isHeld(): boolean {
      return Date.now() < this.#expiresAt;
    }

    #everywhere(script: string, ...args: number[]): Promise<boolean>[] {
      return nodes.map(async (node) => (await node.eval(script, 1, this.#key, this.#token, ...args)) === 1);
    }

    static #certain(from: number, ttlMs: number): number {
      return from + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
    }
  }

  return {
    async acquire(resource, ttlMs) {
      for (let round = 1; round <= 24; round += 1) {
        const mutex = new Mutex(`mutex:${resource}`);
        if (await mutex.lock(ttlMs)) return mutex;
        await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 30 * Math.min(round, 10)));
      }
      return null;
    },
  };
};
