import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const RELEASE_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const EXTEND_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end`;

class LockNotAcquired extends Error {
  override name = 'LockNotAcquired';
}

class WatchdogMutex {
  readonly #nodes: Redis[];
  readonly #majority: number;
  readonly #nodeTimeout = 150;

  constructor(nodes: Redis[]) {
    this.#nodes = nodes;
    this.#majority = Math.floor(nodes.length / 2) + 1;
  }

  async using(resource: string, ttl: number, routine: (signal?: AbortSignal) => Promise<void>): Promise<void> {
    const { token, until: first } = await this.#claim(resource, ttl);
    const controller = new AbortController();
    let until = first;
    let finished = false;
    let heartbeat: NodeJS.Timeout | undefined;
    let doom: NodeJS.Timeout | undefined;
    let renewal: Promise<void> = Promise.resolve();

    const guard = () => {
      clearTimeout(doom);
      doom = setTimeout(
        () => {
          if (!finished) controller.abort(new Error('lock lost'));
        },
        Math.max(0, Math.floor(until - performance.now())),
      );
    };
    const renew = async () => {
      const began = performance.now();
      if (began >= until) return;
      const votes = await this.#votes((node) => node.eval(EXTEND_SCRIPT, 1, resource, token, ttl), 1);
      if (finished || performance.now() >= until) return;
      if (votes >= this.#majority) {
        until = began + this.#lasting(ttl);
        guard();
      }
      schedule();
    };
    const schedule = () => {
      heartbeat = setTimeout(() => {
        renewal = renew();
      }, Math.floor(ttl / 3));
    };

    guard();
    schedule();
    try {
      await routine(controller.signal);
    } finally {
      finished = true;
      clearTimeout(heartbeat);
      clearTimeout(doom);
      await renewal;
      await this.#drop(resource, token);
    }
  }

  async #claim(resource: string, ttl: number): Promise<{ token: string; until: number }> {
    for (let attempt = 0; attempt < 5; attempt++) {
      if (attempt > 0) await new Promise((resolve) => setTimeout(resolve, 80 + Math.random() * 140));
      const token = randomUUID();
      const began = performance.now();
      const votes = await this.#votes((node) => node.set(resource, token, 'PX', ttl, 'NX'), 'OK');
      const until = began + this.#lasting(ttl);
      if (votes >= this.#majority && performance.now() < until) return { token, until };
      await this.#drop(resource, token);
    }
    throw new LockNotAcquired(resource);
  }

  async #drop(resource: string, token: string): Promise<void> {
    await this.#votes((node) => node.eval(RELEASE_SCRIPT, 1, resource, token), 1);
  }

  #lasting(ttl: number): number {
    return ttl - Math.ceil(ttl * 0.01) - 2;
  }

  async #votes(command: (node: Redis) => Promise<unknown>, yes: unknown): Promise<number> {
    const answers = await Promise.all(
      this.#nodes.map(
        (node) =>
          new Promise<boolean>((resolve) => {
            const timer = setTimeout(() => resolve(false), this.#nodeTimeout);
            command(node)
              .then((reply) => resolve(reply === yes))
              .catch(() => resolve(false))
              .finally(() => clearTimeout(timer));
          }),
      ),
    );
    return answers.filter(Boolean).length;
  }
}

export const make: MakeLock = ({ nodes }) => new WatchdogMutex(nodes);
