import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const DELETE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

const NODE_MS = 400;
const endOf = (from: number, ttlMs: number) => from + ttlMs - Math.ceil(ttlMs / 100) - 2;

interface Waiter {
  readonly ttlMs: number;
  give(lease: Lease | null): void;
}

interface Lease {
  expiresAt: number;
  release(): Promise<void>;
  extend(ttlMs: number): Promise<boolean>;
}

export const make: MakeLock = ({ nodes }) => {
  const current = new Map<string, Lease>();
  const lines = new Map<string, Waiter[]>();

  const majority = async (expected: unknown, ask: (node: Redis) => Promise<unknown>) => {
    const votes = await Promise.all(
      nodes.map(
        (node) =>
          new Promise<boolean>((resolve) => {
            const timer = setTimeout(resolve, NODE_MS, false);
            ask(node)
              .then((reply) => resolve(reply === expected))
              .catch(() => resolve(false))
              .finally(() => clearTimeout(timer));
          }),
      ),
    );
    return votes.filter(Boolean).length > nodes.length / 2;
  };

  const drop = (key: string, token: string) => majority(1, (node) => node.eval(DELETE, 1, key, token));

  function lease(key: string, token: string, expiresAt: number): Lease {
    let released = false;
    const self: Lease = {
      expiresAt,
      async release() {
        if (released) return;
        released = true;
        const held = Date.now() < self.expiresAt;
        self.expiresAt = 0;
        if (current.get(key) === self) current.delete(key);
        // The next one of this process takes over, which saves the requests.
        const next = held ? lines.get(key)?.shift() : undefined;
        if (next === undefined) await drop(key, token);
        else next.give(lease(key, token, endOf(Date.now(), next.ttlMs)));
      },
      async extend(ttlMs) {
        const from = Date.now();
        if (from >= self.expiresAt) return false;
        const extended = await majority(1, (node) => node.eval(EXTEND, 1, key, token, ttlMs));
        if (!extended || Date.now() >= self.expiresAt) return false;
        self.expiresAt = Math.max(self.expiresAt, endOf(from, ttlMs));
        return true;
      },
    };
    current.set(key, self);
    return self;
  }

  /** Waits in the line of this process, until it is given the lock or `ms` are over. */
  function queue(key: string, ttlMs: number, ms: number): Promise<Lease | null> {
    const line = lines.get(key) ?? [];
    lines.set(key, line);
    return new Promise((resolve) => {
      const waiter: Waiter = {
        ttlMs,
        give(given) {
          clearTimeout(timer);
          resolve(given);
        },
      };
      const timer = setTimeout(() => {
        line.splice(line.indexOf(waiter), 1);
        resolve(null);
      }, ms);
      line.push(waiter);
    });
  }

  return {
    async acquire(key, ttlMs) {
      for (let attempt = 0; attempt < 30; attempt += 1) {
        const local = (current.get(key)?.expiresAt ?? 0) - Date.now();
        if (local > 0) {
          const given = await queue(key, ttlMs, local);
          if (given !== null) return given;
        }
        const token = randomUUID();
        const expiresAt = endOf(Date.now(), ttlMs);
        const taken = await majority('OK', (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
        if (taken && Date.now() < expiresAt) return lease(key, token, expiresAt);
        await drop(key, token);
        await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 150));
      }
      return null;
    },
  };
};
