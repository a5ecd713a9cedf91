import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function orNull<T>(work: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      work,
      new Promise<null>((resolve) => {
        timer = setTimeout(resolve, ms, null);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

/** Sends one command to all nodes. An error is an answer, too: `false`. */
function broadcast(nodes: Redis[], send: (node: Redis) => Promise<unknown>): Promise<unknown[]> {
  return Promise.all(nodes.map((node) => send(node).catch(() => false)));
}

export class Lockers {
  private readonly quorum: number;

  constructor(
    private readonly nodes: Redis[],
    private readonly maxAttempts = 5,
  ) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttl: number) {
    const budget = Math.max(20, ttl / 4);
    for (let attempt = 1; attempt <= this.maxAttempts; attempt++) {
      const token = randomUUID();
      const end = performance.now() + ttl - (ttl * 0.01 + 2);

      // A round has a budget of time.
      const round = broadcast(this.nodes, (node) => node.set(resource, token, 'PX', ttl, 'NX'));
      const answers = await orNull(round, budget);
      if (answers !== null) {
        const votes = answers.filter((answer) => answer === 'OK').length;
        if (votes >= this.quorum && performance.now() < end) return this.lock(resource, token, end, budget);
      }

      await this.forget(resource, token, budget);
      if (attempt < this.maxAttempts) await this.jitter(attempt);
    }
    return null;
  }

  private lock(resource: string, token: string, end: number, budget: number) {
    let over = false;
    return {
      resource,
      isHeld: () => !over && performance.now() < end,
      release: async () => {
        over = true;
        await this.forget(resource, token, budget);
      },
    };
  }

  private async forget(resource: string, token: string, budget: number): Promise<void> {
    await orNull(broadcast(this.nodes, (node) => node.eval(SCRIPT, 1, resource, token)), budget);
  }

  private jitter(attempt: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, Math.random() * 60 * attempt + 20));
  }
}

export const make: MakeLock = ({ nodes }) => new Lockers(nodes);
