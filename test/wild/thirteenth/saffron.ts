import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const FREE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;
const TOUCH = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`;

/** Answer of the server, or null: it is down, slow, or not amused. */
function ask(command: Promise<unknown>, ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout;
  const silence = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms);
  });
  return Promise.race([command.catch(() => null), silence]).finally(() => clearTimeout(timer));
}

class Watchdog {
  private readonly controller = new AbortController();
  private deathTimer: NodeJS.Timeout | undefined;
  private nextTimer: NodeJS.Timeout | undefined;
  private stopped = false;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly owner: string,
    private readonly ttl: number,
    private end: number,
  ) {
    this.plan();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.deathTimer);
    clearTimeout(this.nextTimer);
  }

  private plan(): void {
    clearTimeout(this.deathTimer);
    clearTimeout(this.nextTimer);
    this.deathTimer = setTimeout(() => this.die(), Math.max(0, this.end - performance.now()));
    this.nextTimer = setTimeout(() => void this.touch(), this.ttl / 4);
  }

  private die(): void {
    if (this.stopped) return;
    this.stop();
    this.controller.abort(new Error(`${this.key}: lock lost`));
  }

  private async touch(): Promise<void> {
    const sent = performance.now();
    if (sent >= this.end) return this.die();
    const answer = await ask(this.redis.eval(TOUCH, 1, this.key, this.owner, this.ttl), this.ttl / 4);
    if (this.stopped) return;
    if (answer === 0) return this.die();
    if (answer === 1) this.end = sent + this.ttl * 0.99 - 2;
    if (performance.now() >= this.end) return this.die();
    this.plan();
  }
}

export default function make({ nodes: [redis] }: Parameters<MakeLock>[0]): ReturnType<MakeLock> {
  async function obtain(key: string, ttl: number) {
    for (let i = 0; i < 10; i++) {
      const owner = randomUUID();
      const end = performance.now() + ttl * 0.99 - 2;
      const answer = await ask(redis.set(key, owner, 'PX', ttl, 'NX'), ttl / 3);
      if (answer === 'OK' && performance.now() < end) return { owner, end };
      await ask(redis.eval(FREE, 1, key, owner), ttl / 3);
      await new Promise((resolve) => setTimeout(resolve, 30 + 50 * Math.random()));
    }
    throw new Error(`${key}: not obtained`);
  }

  return {
    async using(resource, ttl, routine) {
      const { owner, end } = await obtain(resource, ttl);
      const dog = new Watchdog(redis, resource, owner, ttl, end);
      try {
        await routine(dog.signal);
      } finally {
        dog.stop();
        await ask(redis.eval(FREE, 1, resource, owner), ttl);
      }
    },
  };
}
