import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then
  redis.call("pexpire", KEYS[1], ARGV[2])
end
return 1`;

export interface FleetLock {
  isValid(): boolean;
  remaining(): number;
  extend(ttlMs: number): Promise<boolean>;
  release(): Promise<void>;
}

/**
 * Locks over the cache fleet. Servers that are down (deploys, reboots) are left
 * out of the vote, otherwise each command would sit in ioredis' offline queue.
 */
export class FleetLocks {
  private nodes: Redis[];

  constructor(nodes: Redis[]) {
    this.nodes = nodes;
  }

  private online() {
    return this.nodes.filter((node) => node.status === 'ready');
  }

  private async vote(nodes: Redis[], limitMs: number, yes: unknown, send: (node: Redis) => Promise<unknown>) {
    const votes = await Promise.all(
      nodes.map(async (node) => {
        let timer: NodeJS.Timeout | undefined;
        const slow = new Promise((resolve) => {
          timer = setTimeout(resolve, Math.min(200, limitMs));
        });
        try {
          return (await Promise.race([send(node), slow])) === yes;
        } catch {
          return false;
        } finally {
          clearTimeout(timer);
        }
      }),
    );
    return votes.filter(Boolean).length > nodes.length / 2;
  }

  async acquire(resource: string, ttlMs: number): Promise<FleetLock | null> {
    const key = `fleet:lock:${resource}`;
    const usable = (ms: number) => ms - Math.ceil(ms * 0.01) - 2;

    for (let attempt = 0; attempt < 10; attempt++) {
      const token = randomUUID();
      const asked = performance.now();
      const won = await this.vote(this.online(), ttlMs / 3, 'OK', (n) => n.set(key, token, 'PX', ttlMs, 'NX'));
      let until = asked + usable(ttlMs);

      if (won && performance.now() < until) {
        let released = false;
        const remaining = () => (released ? 0 : Math.max(0, until - performance.now()));
        return {
          remaining,
          isValid: () => remaining() > 0,
          extend: async (ms) => {
            if (remaining() === 0) return false;
            const from = performance.now();
            const kept = await this.vote(this.online(), ms / 3, 1, (n) => n.eval(EXTEND, 1, key, token, ms));
            if (!kept) return false;
            until = Math.max(until, from + usable(ms));
            return remaining() > 0;
          },
          release: async () => {
            if (released) return;
            released = true;
            await this.unlock(key, token);
          },
        };
      }

      await this.unlock(key, token);
      await sleep(50 + Math.random() * 100);
    }
    return null;
  }

  // to all of them: one may have gone offline after it granted the lock
  private async unlock(key: string, token: string) {
    await this.vote(this.nodes, 500, 1, (n) => n.eval(UNLOCK, 1, key, token));
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new FleetLocks(nodes);
