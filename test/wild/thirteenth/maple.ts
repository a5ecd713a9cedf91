import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

/** For our dashboards: how long things take. */
function stopwatch(): () => number {
  const from = performance.now();
  return () => (performance.now() - from) / 1e3;
}

interface Stats {
  rounds: number;
  won: number;
  asking: number;
}

class Locks {
  readonly stats: Stats = { rounds: 0, won: 0, asking: 0 };

  constructor(private readonly cluster: Redis[]) {}

  private get majority(): number {
    return Math.floor(this.cluster.length / 2) + 1;
  }

  private async each(ms: number, command: (node: Redis) => Promise<unknown>): Promise<unknown[]> {
    return Promise.all(
      this.cluster.map(
        (node) =>
          new Promise<unknown>((resolve) => {
            const timer = setTimeout(() => resolve(new Error('no answer')), ms);
            command(node)
              .catch((error: unknown) => error)
              .then((answer) => {
                clearTimeout(timer);
                resolve(answer);
              });
          }),
      ),
    );
  }

  async acquire(resource: string, ttlMs: number) {
    const patience = Math.max(20, Math.floor(ttlMs / 4));
    for (let round = 0; round < 6; round++) {
      const id = randomUUID();
      const elapsed = stopwatch();
      const answers = await this.each(patience, (node) => node.set(resource, id, 'PX', ttlMs, 'NX'));
      const votes = answers.filter((answer) => answer === 'OK').length;
      const took = elapsed();
      this.stats.rounds += 1;
      this.stats.asking += took;

      const validity = ttlMs - took - ttlMs * 0.01 - 2;
      if (votes >= this.majority && validity > 0) {
        this.stats.won += 1;
        return this.hold(resource, id, performance.now() + validity);
      }
      await this.drop(resource, id, patience);
      await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 40 * (round + 1)));
    }
    return null;
  }

  private hold(resource: string, id: string, end: number) {
    let mine = true;
    return {
      remaining: () => (mine ? Math.max(0, end - performance.now()) : 0),
      release: async () => {
        mine = false;
        await this.drop(resource, id, 500);
      },
    };
  }

  private async drop(resource: string, id: string, ms: number): Promise<void> {
    await this.each(ms, (node) => node.eval(UNLOCK, 1, resource, id));
  }
}

export const make: MakeLock = ({ nodes }) => new Locks(nodes);
