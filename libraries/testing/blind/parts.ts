import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { LockUnderTest } from '../../testing.js';

/** Deletes a key if it has this value. */
export const DEL_IF = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Gives a key a new TTL if it has this value. */
export const PEXPIRE_IF =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What came within `ms`; else `otherwise`, as for a rejection. */
export function inTime<T>(sent: Promise<T>, ms: number, otherwise: T): Promise<T> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(otherwise), ms);
    sent
      .catch(() => otherwise)
      .then((value) => {
        clearTimeout(timer);
        resolve(value);
      });
  });
}

/** What a lock is made of. Each wrong lock has one of these another way. */
export interface Parts {
  token(): string;
  /** Votes that make a lock. */
  quorum(nodes: number): number;
  /** Asks one node; whether that is a vote. */
  take(node: Redis, key: string, token: string, ttlMs: number): Promise<boolean>;
  drop(node: Redis, key: string, token: string): Promise<unknown>;
  prolong(node: Redis, key: string, token: string, ttlMs: number): Promise<boolean>;
  /** Until when a lock is held, by {@link Parts.now}. */
  until(sentAt: number, answeredAt: number, ttlMs: number): number;
  now(): number;
  isInTime(until: number, now: number): boolean;
  /** The nodes whose keys are deleted when an attempt has failed. */
  toClean(nodes: readonly Redis[], granted: readonly Redis[]): readonly Redis[];
  /** The same when a lock is released. */
  toRelease(nodes: readonly Redis[], granted: readonly Redis[]): readonly Redis[];
  /** Before the next attempt; `null` gives up. */
  pauseMs(attempt: number): number | null;
  waitMs: number;
}

/** A right lock's. */
export const RIGHT: Parts = {
  token: () => randomUUID(),
  quorum: (nodes) => Math.floor(nodes / 2) + 1,
  take: async (node, key, token, ttlMs) => (await node.set(key, token, 'PX', ttlMs, 'NX')) === 'OK',
  drop: (node, key, token) => node.eval(DEL_IF, 1, key, token),
  prolong: async (node, key, token, ttlMs) => (await node.eval(PEXPIRE_IF, 1, key, token, ttlMs)) === 1,
  until: (sentAt, _answeredAt, ttlMs) => sentAt + ttlMs - Math.ceil(ttlMs / 80) - 3,
  now: () => performance.now(),
  isInTime: (until, now) => now < until,
  toClean: (nodes) => nodes,
  toRelease: (nodes) => nodes,
  pauseMs: (attempt) => (attempt < 4 ? 40 + Math.random() * 160 : null),
  waitMs: 180,
};

/** A lock that asks all nodes at once and waits for each up to a time-out of its own. */
export function lockOf(nodes: readonly Redis[], change: Partial<Parts> = {}): LockUnderTest {
  const parts = { ...RIGHT, ...change };
  const drop = (over: readonly Redis[], key: string, token: string): Promise<unknown> =>
    Promise.all(over.map((node) => inTime<unknown>(parts.drop(node, key, token), parts.waitMs, null)));
  return {
    async acquire(key, ttlMs) {
      for (let attempt = 0; ; attempt++) {
        const token = parts.token();
        const sentAt = parts.now();
        let isOver = false;
        const granted: Redis[] = [];
        const ask = async (node: Redis): Promise<void> => {
          const sent = parts.take(node, key, token, ttlMs);
          const late = (): void => void (isOver && parts.drop(node, key, token).catch(() => 0));
          sent.then(late, late);
          if (await inTime(sent, parts.waitMs, false)) granted.push(node);
        };
        await Promise.all(nodes.map(ask));
        let until = parts.until(sentAt, parts.now(), ttlMs);
        const holds = (): boolean => !isOver && parts.isInTime(until, parts.now());
        if (granted.length >= parts.quorum(nodes.length) && holds()) {
          return {
            isHeld: holds,
            async release() {
              isOver = true;
              await drop(parts.toRelease(nodes, granted), key, token);
            },
            async extend(ms: number) {
              if (!holds()) return false;
              const askedAt = parts.now();
              until = Math.min(until, parts.until(askedAt, askedAt, ms));
              const yes = await Promise.all(
                nodes.map((node) => inTime(parts.prolong(node, key, token, ms), parts.waitMs, false)),
              );
              const later = parts.until(askedAt, parts.now(), ms);
              if (yes.filter(Boolean).length < parts.quorum(nodes.length) || !holds() || parts.now() >= later)
                return false;
              until = later;
              return true;
            },
          };
        }
        isOver = true;
        await drop(parts.toClean(nodes, granted), key, token);
        const pauseMs = parts.pauseMs(attempt);
        if (pauseMs === null) return null;
        await sleep(pauseMs);
      }
    },
  };
}
