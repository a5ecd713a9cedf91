import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

// harbour.using('invoice:42', 10_000, async (berth) => { ... berth.assertHeld(); await write() })
//
// Keeps the lock alive while your function runs. When it can't, `berth.signal`
// is aborted and `assertHeld()` throws; call it right before each side effect.

const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const KEEP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export class LockLost extends Error {}
export class LockBusy extends Error {}

export interface Berth {
  signal: AbortSignal;
  remaining(): number;
  assertHeld(): void;
}

type Send = (node: Redis) => Promise<unknown>;

async function count(nodes: Redis[], yes: unknown, timeoutMs: number, send: Send): Promise<number> {
  const votes = await Promise.all(
    nodes.map((node) => {
      let timer: NodeJS.Timeout;
      const tooLate = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), timeoutMs);
      });
      const answer = send(node).then((a) => a === yes, () => false);
      return Promise.race([answer, tooLate]).finally(() => clearTimeout(timer));
    }),
  );
  return votes.filter(Boolean).length;
}

export function createHarbour(nodes: Redis[], { waitMs = 5000, prefix = 'harbour/' } = {}) {
  const majority = Math.floor(nodes.length / 2) + 1;
  const safe = (ttl: number) => ttl - Math.ceil(ttl / 100) - 2;
  const patience = (ttl: number) => Math.min(250, ttl / 4);

  async function take(key: string, ttl: number) {
    const giveUp = performance.now() + waitMs;
    do {
      const token = randomUUID();
      const t0 = performance.now();
      const votes = await count(nodes, 'OK', patience(ttl), (n) => n.set(key, token, 'PX', ttl, 'NX'));
      const deadline = t0 + safe(ttl);
      if (votes >= majority && performance.now() < deadline) return { token, deadline };
      await count(nodes, 1, patience(ttl), (n) => n.eval(DROP, 1, key, token));
      await sleep(40 + Math.random() * 80);
    } while (performance.now() < giveUp);
    throw new LockBusy(`${key} is busy`);
  }

  async function using<T>(resource: string, ttlMs: number, fn: (berth: Berth) => Promise<T>): Promise<T> {
    const key = prefix + resource;
    const taken = await take(key, ttlMs);
    let deadline = taken.deadline;
    const lost = new AbortController();
    const done = new AbortController();
    let alarm: NodeJS.Timeout;
    const arm = () => {
      clearTimeout(alarm);
      alarm = setTimeout(() => lost.abort(new LockLost(key)), Math.max(0, deadline - performance.now()));
    };
    const remaining = () => (lost.signal.aborted || done.signal.aborted ? 0 : Math.max(0, deadline - performance.now()));
    const assertHeld = () => {
      if (remaining() === 0) throw new LockLost(`${key} is not ours any more`);
    };

    const keepAlive = async () => {
      while (!done.signal.aborted && !lost.signal.aborted) {
        await sleep(ttlMs / 4, undefined, { signal: done.signal });
        if (remaining() === 0) return lost.abort(new LockLost(key));
        const t0 = performance.now();
        const votes = await count(nodes, 1, patience(ttlMs), (n) => n.eval(KEEP, 1, key, taken.token, ttlMs));
        // no majority: the old deadline stands and we try again, until the alarm rings
        if (votes >= majority && remaining() > 0) {
          deadline = Math.max(deadline, t0 + safe(ttlMs));
          arm();
        }
      }
    };

    arm();
    const keeper = keepAlive().catch(() => {}); // only the aborted sleep ends here
    try {
      const result = await fn({ signal: lost.signal, remaining, assertHeld });
      assertHeld();
      return result;
    } finally {
      done.abort();
      clearTimeout(alarm!);
      await keeper;
      clearTimeout(alarm!);
      await count(nodes, 1, 500, (n) => n.eval(DROP, 1, key, taken.token));
    }
  }

  return { using };
}

export const make = ({ nodes }: { nodes: Redis[] }) => createHarbour(nodes);
