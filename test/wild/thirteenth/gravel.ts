import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const KEEP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export class NotEnoughNodes extends Error {
  constructor(what: string, votes: number, needed: number) {
    super(`${what}: ${votes} nodes said yes, ${needed} are needed`);
    this.name = 'NotEnoughNodes';
  }
}

async function yes(command: Promise<unknown>, wanted: unknown, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => (timer = setTimeout(() => resolve(null), ms)));
  const answer = await Promise.race([command.catch(() => null), late]);
  clearTimeout(timer);
  return answer === wanted;
}

class Elections {
  readonly needed: number;
  constructor(private readonly nodes: Redis[]) {
    this.needed = Math.floor(nodes.length / 2) + 1;
  }

  async hold(what: string, wanted: unknown, ttl: number, send: (node: Redis) => Promise<unknown>): Promise<number> {
    const started = performance.now();
    const votes = await Promise.all(this.nodes.map((node) => yes(send(node), wanted, Math.max(20, ttl / 6))));
    const count = votes.filter(Boolean).length;
    if (count < this.needed) throw new NotEnoughNodes(what, count, this.needed);
    return started + ttl * 0.99 - 2;
  }

  async clear(key: string, token: string, ms: number): Promise<void> {
    await Promise.all(this.nodes.map((node) => yes(node.eval(DROP, 1, key, token), 1, Math.max(20, ms))));
  }
}

export const make: MakeLock = ({ nodes }) => {
  const elections = new Elections(nodes);

  async function enter(key: string, ttl: number): Promise<{ token: string; until: number }> {
    for (let tries = 1; ; tries++) {
      const token = randomUUID();
      try {
        const until = await elections.hold('acquire', 'OK', ttl, (node) => node.set(key, token, 'PX', ttl, 'NX'));
        if (performance.now() < until) return { token, until };
        throw new Error('acquire: too slow');
      } catch (error) {
        await elections.clear(key, token, ttl / 6);
        if (tries === 6) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 80));
    }
  }

  return {
    async using(key, ttl, routine) {
      const { token, until } = await enter(key, ttl);
      const lost = new AbortController();
      const lose = () => lost.abort(new Error('lock lost'));
      let running = true;
      let deadline = setTimeout(lose, Math.max(0, until - performance.now()));

      const watchdog = setInterval(async () => {
        if (lost.signal.aborted) return clearInterval(watchdog);
        const next = await elections.hold('extend', 1, ttl, (node) => node.eval(KEEP, 1, key, token, ttl));
        if (!running || lost.signal.aborted) return;
        clearTimeout(deadline);
        if (performance.now() >= next) return lose();
        deadline = setTimeout(lose, next - performance.now());
      }, ttl / 3);

      try {
        await routine(lost.signal);
      } finally {
        running = false;
        clearInterval(watchdog);
        clearTimeout(deadline);
        await elections.clear(key, token, ttl / 6);
      }
    },
  };
};
