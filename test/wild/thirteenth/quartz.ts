import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

class Script {
  readonly sha: string;
  constructor(readonly lua: string) {
    this.sha = createHash('sha1').update(lua).digest('hex');
  }
  /** EVALSHA; EVAL if the node does not know the script (yet, or any more). */
  async run(node: Redis, key: string, ...args: (string | number)[]): Promise<unknown> {
    try {
      return await node.evalsha(this.sha, 1, key, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw error;
      return node.eval(this.lua, 1, key, ...args);
    }
  }
}

const unlock = new Script('if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end');
const prolong = new Script('if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end');

interface Settings {
  nodeTimeoutFactor: number;
  retries: number;
  retryDelayMs: number;
  retryJitterMs: number;
}

const defaults: Settings = { nodeTimeoutFactor: 0.2, retries: 5, retryDelayMs: 60, retryJitterMs: 60 };

function createLocker(nodes: Redis[], options: Partial<Settings> = {}) {
  const settings = { ...defaults, ...options };
  const majority = Math.floor(nodes.length / 2) + 1;

  function voteOf(answer: Promise<unknown>, wanted: unknown, ms: number): Promise<0 | 1> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(0), ms);
      const done = (vote: 0 | 1) => {
        clearTimeout(timer);
        resolve(vote);
      };
      answer.then((value) => done(value === wanted ? 1 : 0), () => done(0));
    });
  }

  async function poll(ttl: number, wanted: unknown, command: (node: Redis) => Promise<unknown>): Promise<number> {
    const ms = Math.max(25, ttl * settings.nodeTimeoutFactor);
    const votes = await Promise.all(nodes.map((node) => voteOf(command(node), wanted, ms)));
    return votes.reduce<number>((sum, vote) => sum + vote, 0);
  }

  const lastMs = (from: number, ttl: number) => Math.floor(from + ttl - ttl * 0.01 - 2);

  return {
    async acquire(resource: string, ttl: number) {
      for (let left = settings.retries; left >= 0; left--) {
        const value = randomUUID();
        let expiration = lastMs(Date.now(), ttl);
        const votes = await poll(ttl, 'OK', (node) => node.set(resource, value, 'PX', ttl, 'NX'));
        if (votes >= majority && Date.now() < expiration) {
          let latest = 0;
          let released = false;
          return {
            get expiration() {
              return released ? 0 : expiration;
            },
            async extend(newTtl: number) {
              if (released || Date.now() >= expiration) throw new Error('lock is over');
              const turn = ++latest;
              const next = lastMs(Date.now(), newTtl);
              expiration = Math.min(expiration, next);
              const extended = await poll(newTtl, 1, (node) => prolong.run(node, resource, value, newTtl));
              if (extended < majority || released) throw new Error('could not extend the lock');
              // Another extension was sent after this one: its TTL is the one that counts.
              if (turn === latest) expiration = next;
            },
            async release() {
              released = true;
              await poll(ttl, 1, (node) => unlock.run(node, resource, value));
            },
          };
        }
        await poll(ttl, 1, (node) => unlock.run(node, resource, value));
        if (left > 0) await delay(settings.retryDelayMs + Math.random() * settings.retryJitterMs);
      }
      throw new Error(`could not lock ${resource}`);
    },
  };
}

export default (({ nodes }) => createLocker(nodes)) satisfies MakeLock;
