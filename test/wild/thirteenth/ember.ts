import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const SCRIPT = `
local current = redis.call('get', KEYS[1])
if current == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface LockOptions {
  retryCount: number;
  retryDelay: number;
  retryJitter: number;
  driftFactor: number;
}

const DEFAULTS: LockOptions = { retryCount: 5, retryDelay: 60, retryJitter: 80, driftFactor: 0.01 };

/** The value of a command; a node that fails must not fail the others. */
function attempt<T>(command: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), ms);
    command.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      () => {
        clearTimeout(timer);
        resolve(undefined);
      },
    );
  });
}

export class Warden {
  private readonly options: LockOptions;
  private readonly quorum: number;

  constructor(
    private readonly nodes: Redis[],
    options: Partial<LockOptions> = {},
  ) {
    this.options = { ...DEFAULTS, ...options };
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttl: number) {
    const { retryCount, retryDelay, retryJitter, driftFactor } = this.options;
    for (let i = 0; i <= retryCount; i++) {
      if (i > 0) await sleep(retryDelay + Math.random() * retryJitter);
      const token = randomUUID();
      const end = performance.now() + ttl - (ttl * driftFactor + 2);
      const values = await Promise.all(
        this.nodes.map((node) => attempt(node.set(resource, token, 'PX', ttl, 'NX'), Math.max(20, ttl / 5))),
      );
      // SET NX gives nil if the key is there.
      const votes = values.filter((value) => value !== null).length;
      if (votes >= this.quorum && performance.now() < end) return this.ward(resource, token, end);
      await this.clear(resource, token);
    }
    return null;
  }

  private ward(resource: string, token: string, end: number) {
    let active = true;
    return {
      resource,
      token,
      remaining: () => (active ? Math.max(0, end - performance.now()) : 0),
      release: async () => {
        active = false;
        await this.clear(resource, token);
      },
    };
  }

  private async clear(resource: string, token: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => attempt(node.eval(SCRIPT, 1, resource, token), 400)));
  }
}

export const make: MakeLock = ({ nodes }) => new Warden(nodes);
