import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const LUA_RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

interface Entry {
  token: string;
  until: number;
}

/** What this process has or is about to have. Saves a round to the nodes when a task asks for what its neighbour holds. */
class Registry {
  private readonly entries = new Map<string, Entry>();

  isBusy(resource: string): boolean {
    const entry = this.entries.get(resource);
    return entry !== undefined && performance.now() < entry.until;
  }

  reserve(resource: string, token: string): void {
    this.entries.set(resource, { token, until: Number.POSITIVE_INFINITY });
  }

  confirm(resource: string, token: string, until: number): void {
    this.entries.set(resource, { token, until });
  }

  remove(resource: string, token: string): void {
    if (this.entries.get(resource)?.token === token) this.entries.delete(resource);
  }
}

function reply(command: Promise<unknown>, ms: number): Promise<unknown> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    command
      .catch(() => undefined)
      .then((value) => {
        clearTimeout(timer);
        resolve(value);
      });
  });
}

export function createLocks(nodes: Redis[]) {
  const registry = new Registry();
  const quorum = Math.floor(nodes.length / 2) + 1;

  const erase = async (resource: string, token: string, ms: number): Promise<void> => {
    await Promise.all(nodes.map((node) => reply(node.eval(LUA_RELEASE, 1, resource, token), ms)));
  };

  return {
    async acquire(resource: string, ttl: number) {
      if (registry.isBusy(resource)) return null;
      const token = randomUUID();
      registry.reserve(resource, token);

      const ms = Math.max(20, ttl / 5);
      const until = performance.now() + ttl - (ttl * 0.01 + 2);
      const replies = await Promise.all(nodes.map((node) => reply(node.set(resource, token, 'PX', ttl, 'NX'), ms)));
      const votes = replies.filter((value) => value === 'OK').length;
      if (votes < quorum || performance.now() >= until) {
        await erase(resource, token, ms);
        return null;
      }

      registry.confirm(resource, token, until);
      let released = false;
      return {
        isHeld: () => !released && performance.now() < until,
        async release() {
          released = true;
          await erase(resource, token, ms);
          registry.remove(resource, token);
        },
      };
    },
  };
}

export const make: MakeLock = ({ nodes }) => createLocks(nodes);
