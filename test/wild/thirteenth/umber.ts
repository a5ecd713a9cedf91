import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

const NO_ANSWER = Symbol('no answer');

/** What a node answers, or NO_ANSWER after `ms` or an error. */
async function answerOf(command: Promise<unknown>, ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise((resolve) => {
    timer = setTimeout(resolve, ms, NO_ANSWER);
  });
  const answer = await Promise.race([command.catch(() => NO_ANSWER), silence]);
  clearTimeout(timer);
  return answer;
}

class DistributedLock {
  private released = false;

  constructor(
    private readonly service: LockService,
    readonly resource: string,
    readonly value: string,
    private readonly goodUntil: number,
  ) {}

  remaining(): number {
    return this.released ? 0 : Math.max(0, this.goodUntil - performance.now());
  }

  async release(): Promise<void> {
    this.released = true;
    await this.service.removeEverywhere(this.resource, this.value);
  }
}

class LockService {
  private readonly retryCount = 5;
  private readonly retryDelay = 70;

  constructor(private readonly nodes: Redis[]) {}

  async removeEverywhere(resource: string, value: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => answerOf(node.eval(RELEASE_SCRIPT, 1, resource, value), 500)));
  }

  async acquire(resource: string, ttl: number): Promise<DistributedLock | null> {
    for (let attempt = 0; attempt < this.retryCount; attempt++) {
      const value = randomBytes(16).toString('hex');
      const start = performance.now();
      const answers = await Promise.all(
        this.nodes.map((node) => answerOf(node.set(resource, value, 'PX', ttl, 'NX'), Math.max(20, ttl / 5))),
      );
      // Nodes that are down have no say.
      const cast = answers.filter((answer) => answer !== NO_ANSWER);
      const granted = cast.filter((answer) => answer === 'OK').length;
      const quorum = Math.floor(cast.length / 2) + 1;

      const drift = ttl * 0.01 + 2;
      const goodUntil = start + ttl - drift;
      if (granted >= quorum && performance.now() < goodUntil) {
        return new DistributedLock(this, resource, value, goodUntil);
      }
      await this.removeEverywhere(resource, value);
      await new Promise((resolve) => setTimeout(resolve, this.retryDelay * (0.5 + Math.random())));
    }
    return null;
  }
}

export const make: MakeLock = ({ nodes }) => new LockService(nodes);
