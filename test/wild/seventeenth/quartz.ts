import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const remove = `
local value = redis.call('get', KEYS[1])
if value == ARGV[1] then
  redis.call('del', KEYS[1])
  return 1
end
return 0
`;
const prolong = `
local value = redis.call('get', KEYS[1])
if value == ARGV[1] then
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 1
end
return 0
`;

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The tasks of this process stand in line here, so that only one of them at a time bothers the server. */
class Line {
  #tail: Promise<void> = Promise.resolve();

  /** Resolves to a function that lets the next one in, or to `null` when it takes too long. */
  async enter(patienceMs: number): Promise<(() => void) | null> {
    let leave: () => void = () => {};
    const mine = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const ahead = this.#tail;
    this.#tail = ahead.then(() => mine);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tooLong = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), patienceMs);
    });
    const came = await Promise.race([ahead.then(() => true), tooLong]);
    clearTimeout(timer);
    if (came) return leave;
    leave();
    return null;
  }
}

class QueuedLock {
  readonly #redis: Redis;
  readonly #lines = new Map<string, Line>();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async acquire(resource: string, ttlMs: number) {
    const giveUp = performance.now() + 4 * ttlMs;
    let line = this.#lines.get(resource);
    if (line === undefined) {
      line = new Line();
      this.#lines.set(resource, line);
    }
    const leave = await line.enter(4 * ttlMs);
    if (leave === null) return null;
    try {
      while (performance.now() < giveUp) {
        const hold = await this.#attempt(resource, ttlMs, leave);
        if (hold !== null) return hold;
        await after(ttlMs / 50 + (Math.random() * ttlMs) / 20);
      }
    } catch {
      // Nothing above rejects but a broken client; it is as good as "no".
    }
    leave();
    return null;
  }

  async #attempt(resource: string, ttlMs: number, leave: () => void) {
    const redis = this.#redis;
    const id = randomUUID();
    let stopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;

    const send = (work: Promise<boolean>, ms: number): Promise<boolean> => {
      const silent = new Promise<boolean>((resolve) => setTimeout(resolve, ms, false));
      return Promise.race([work.catch(() => false), silent]);
    };
    const clear = async (): Promise<void> => {
      for (let tries = 0; tries < 3; tries++) {
        const done = redis.eval(remove, 1, resource, id).then(() => true);
        if (await send(done, ttlMs / 8)) return;
      }
    };

    const asked = performance.now();
    const reply = redis.set(resource, id, 'PX', ttlMs, 'NX').then((text) => {
      if (text === 'OK' && stopped) void clear();
      return text === 'OK';
    });
    const ok = await send(reply, ttlMs / 2);
    let until = asked + ttlMs - Math.ceil(ttlMs / 100) - 2;
    if (!ok || performance.now() >= until) {
      stopped = true;
      // The answer may have been lost, not the request.
      await clear();
      return null;
    }

    const remaining = (): number => (stopped ? 0 : until - performance.now());
    const watchEnd = (): void => {
      if (remaining() <= 0) leave();
      else timer = setTimeout(watchEnd, Math.ceil(remaining()));
    };
    watchEnd();

    return {
      remaining,
      async extend(ms: number): Promise<boolean> {
        if (remaining() <= 0) return false;
        const from = performance.now();
        const next = from + ms - Math.ceil(ms / 100) - 2;
        until = Math.min(until, next);
        const kept = await send(
          redis.eval(prolong, 1, resource, id, ms).then((n) => n === 1),
          ms / 2,
        );
        if (!kept || remaining() <= 0) return false;
        until = next;
        return true;
      },
      async release(): Promise<void> {
        stopped = true;
        clearTimeout(timer);
        await clear();
        leave();
      },
    };
  }
}

export const make: MakeLock = ({ nodes }) => new QueuedLock(nodes[0]);
