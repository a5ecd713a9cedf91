import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const unlockLua = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`;

const createLocker = (nodes: readonly Redis[], { tries = 5, commandMs = 130, drift = 0.01 } = {}) => {
  const quorum = Math.floor(nodes.length / 2) + 1;

  const reply = async (command: Promise<unknown>): Promise<unknown> => {
    const giveUp = new AbortController();
    const timeout = new Promise<null>((resolve) => {
      const timer = setTimeout(resolve, commandMs, null);
      giveUp.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
    });
    try {
      return await Promise.race([command, timeout]);
    } catch {
      return null;
    } finally {
      giveUp.abort();
    }
  };

  const unlock = async (key: string, token: string) => {
    await Promise.all(nodes.map((node) => reply(node.eval(unlockLua, 1, key, token))));
  };

  const lock = async (key: string, ttl: number) => {
    for (let i = 0; i < tries; i++) {
      const token = randomUUID();
      const before = performance.now();
      const replies = await Promise.all(nodes.map((node) => reply(node.set(key, token, 'PX', ttl, 'NX'))));
      const until = before + ttl - (ttl * drift + 2);
      const won = replies.filter((r) => r === 'OK').length >= quorum;
      if (won && performance.now() < until) return { token, until };
      await unlock(key, token);
      await new Promise((r) => setTimeout(r, 75 + Math.random() * 150));
    }
    return null;
  };

  const withLock = async <T>(key: string, ttl: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const held = await lock(key, ttl);
    if (!held) throw new Error(`${key} is locked`);
    const lost = new AbortController();
    const left = Math.max(0, Math.floor(held.until - performance.now()));
    setTimeout(() => lost.abort(new Error('time is up')), left);
    try {
      return await fn(lost.signal);
    } finally {
      await unlock(key, held.token);
    }
  };

  return { withLock };
};

export const make: MakeLock = ({ nodes }) => {
  const locker = createLocker(nodes);
  return {
    using: (resource: string, ttl: number, routine: (signal?: AbortSignal) => Promise<void>) =>
      locker.withLock(resource, ttl, (signal) => routine(signal)),
  };
};
