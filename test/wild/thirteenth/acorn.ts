import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;
const REFRESH = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`;

function ballot(nodes: Redis[], send: (node: Redis) => Promise<unknown>, wanted: unknown, ms: number): Promise<number> {
  const one = (node: Redis) =>
    new Promise<number>((resolve) => {
      const timer = setTimeout(() => resolve(0), ms);
      send(node).then(
        (answer) => {
          clearTimeout(timer);
          resolve(answer === wanted ? 1 : 0);
        },
        () => {
          clearTimeout(timer);
          resolve(0);
        },
      );
    });
  return Promise.all(nodes.map(one)).then((votes) => votes.reduce((a, b) => a + b, 0));
}

class Session {
  readonly token = randomUUID();
  private readonly quorum: number;
  private readonly ms: number;
  private readonly abort = new AbortController();
  private timers: NodeJS.Timeout[] = [];
  private until = 0;
  private ended = false;

  constructor(private readonly nodes: Redis[], private readonly key: string, private readonly ttl: number) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.ms = Math.max(20, ttl / 6);
  }

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  async open(): Promise<boolean> {
    this.until = performance.now() + this.ttl * 0.99 - 2;
    const votes = await ballot(this.nodes, (n) => n.set(this.key, this.token, 'PX', this.ttl, 'NX'), 'OK', this.ms);
    if (votes < this.quorum || performance.now() >= this.until) return false;
    this.schedule();
    return true;
  }

  private schedule(): void {
    this.timers.forEach((timer) => clearTimeout(timer));
    this.timers = [
      setTimeout(() => this.lose(), Math.max(0, this.until - performance.now())),
      setTimeout(() => void this.refresh(), this.ttl / 3),
    ];
  }

  private async refresh(): Promise<void> {
    const sent = performance.now();
    if (sent >= this.until) return this.lose();
    const votes = await ballot(this.nodes, (n) => n.eval(REFRESH, 1, this.key, this.token, this.ttl), 1, this.ms);
    if (this.ended) return;
    if (votes >= this.quorum) this.until = sent + this.ttl * 0.99 - 2;
    if (performance.now() >= this.until) return this.lose();
    this.schedule();
  }

  private lose(): void {
    if (this.ended) return;
    this.end();
    this.abort.abort(new Error(`${this.key} is lost`));
  }

  private end(): void {
    this.ended = true;
    this.timers.forEach((timer) => clearTimeout(timer));
  }

  async close(): Promise<void> {
    this.end();
    await ballot(this.nodes, (n) => n.eval(UNLOCK, 1, this.key, this.token), 1, this.ms);
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async using(resource, ttl, routine) {
    for (let attempt = 0; attempt < 6; attempt++) {
      const session = new Session(nodes, resource, ttl);
      if (await session.open()) {
        await routine(session.signal);
        return session.close();
      }
      await session.close();
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50 * attempt));
    }
    throw new Error(`${resource} is busy`);
  },
});
