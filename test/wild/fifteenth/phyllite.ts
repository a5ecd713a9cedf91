import { createHash, randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

class Script {
  readonly #lua: string;
  readonly #sha: string;

  constructor(lua: string) {
    this.#lua = lua;
    this.#sha = createHash('sha1').update(lua).digest('hex');
  }

  async run(node: Redis, key: string, ...args: (string | number)[]): Promise<boolean> {
    try {
      return (await node.evalsha(this.#sha, 1, key, ...args)) === 1;
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw error;
      return (await node.eval(this.#lua, 1, key, ...args)) === 1;
    }
  }
}

const drop = new Script(`
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  return redis.call('del', KEYS[1])`);

const prolong = new Script(`
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 1`);

const NODE_MS = 400;
const SKEW = { share: 0.01, ms: 2 };

type Ask = (node: Redis) => Promise<boolean>;

async function vote(node: Redis, ask: Ask): Promise<boolean> {
  const limit = new AbortController();
  try {
    return await Promise.race([
      ask(node),
      new Promise<boolean>((resolve) => {
        const timer = setTimeout(resolve, NODE_MS, false);
        limit.signal.addEventListener('abort', () => clearTimeout(timer));
      }),
    ]);
  } catch {
    return false;
  } finally {
    limit.abort();
  }
}

async function majorityOf(nodes: readonly Redis[], ask: Ask): Promise<boolean> {
  const votes = await Promise.all(nodes.map((node) => vote(node, ask)));
  return votes.filter((yes) => yes).length * 2 > nodes.length;
}

export const make: MakeLock = ({ nodes }) => {
  const believe = (from: number, ttlMs: number) => from + ttlMs * (1 - SKEW.share) - SKEW.ms;

  const tryOnce = async (key: string, ttlMs: number) => {
    const token = randomBytes(20).toString('base64url');
    let until = believe(Date.now(), ttlMs);

    const release = async (): Promise<void> => {
      until = 0;
      await majorityOf(nodes, (node) => drop.run(node, key, token));
    };
    const extend = async (ms: number): Promise<boolean> => {
      const from = Date.now();
      if (from >= until) return false;
      const extended = await majorityOf(nodes, (node) => prolong.run(node, key, token, ms));
      if (Date.now() >= until) {
        await release();
        return false;
      }
      if (!extended) return false;
      until = Math.max(until, believe(from, ms));
      return true;
    };

    const got = await majorityOf(nodes, async (node) => {
      return (await node.set(key, token, 'PX', ttlMs, 'NX')) !== null;
    });
    if (got && Date.now() < until) {
      return {
        get isHeld() {
          return Date.now() < until;
        },
        release,
        extend,
      };
    }
    await release();
    return null;
  };

  return {
    async acquire(resource, ttlMs) {
      const key = `locks/${resource}`;
      for (let delay = 40, tries = 0; tries < 20; tries += 1, delay = Math.min(delay * 1.5, 400)) {
        const lock = await tryOnce(key, ttlMs);
        if (lock !== null) return lock;
        await new Promise((resolve) => setTimeout(resolve, delay / 2 + Math.random() * delay));
      }
      return null;
    },
  };
};
