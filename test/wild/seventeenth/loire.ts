import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`;
const DELETE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

const delay = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export class NotAcquiredError extends Error {}

interface Grant {
  key: string;
  token: string;
  ttlMs: number;
  /** By `performance.now()`. */
  until: number;
  abandoned: boolean;
}

class Guard {
  readonly #nodes: Redis[];
  readonly #quorum: number;

  constructor(nodes: Redis[]) {
    this.#nodes = nodes;
    this.#quorum = (nodes.length >> 1) + 1;
  }

  /** Mutual exclusion for `routine`. The lease is renewed while it runs; the signal aborts when that fails. */
  async using(resource: string, ttlMs: number, routine: (signal?: AbortSignal) => Promise<void>): Promise<void> {
    const grant = await this.#enter(resource, ttlMs);
    const lost = new AbortController();
    let renewTimer: ReturnType<typeof setTimeout> | undefined;
    let endTimer: ReturnType<typeof setTimeout> | undefined;
    let finished = false;

    const lose = () => {
      clearTimeout(renewTimer);
      clearTimeout(endTimer);
      if (!lost.signal.aborted) lost.abort(new Error(`lost the lock ${resource}`));
    };
    const armEnd = () => {
      clearTimeout(endTimer);
      // A few ms early: timers are never early, but may well be late.
      endTimer = setTimeout(lose, Math.max(0, Math.floor(grant.until - performance.now()) - 5));
    };
    const renew = async () => {
      const start = performance.now();
      const ok = await this.#poll(
        (node) => node.eval(EXTEND, 1, grant.key, grant.token, ttlMs).then((reply) => reply === 1),
        ttlMs / 4,
      );
      if (finished || lost.signal.aborted) return;
      if (performance.now() >= grant.until - 5) return lose();
      if (ok) {
        grant.until = start + ttlMs - this.#drift(ttlMs);
        armEnd();
      }
      // Otherwise keep trying; the end timer stands.
      renewTimer = setTimeout(renew, ok ? ttlMs / 3 : ttlMs / 20);
    };

    armEnd();
    renewTimer = setTimeout(renew, ttlMs / 3);
    try {
      await routine(lost.signal);
    } finally {
      finished = true;
      clearTimeout(renewTimer);
      clearTimeout(endTimer);
      await this.#leave(grant);
    }
  }

  async #enter(resource: string, ttlMs: number): Promise<Grant> {
    const patience = performance.now() + ttlMs * 3 + 500;
    while (performance.now() < patience) {
      const grant: Grant = { key: `guard:${resource}`, token: randomUUID(), ttlMs, until: 0, abandoned: false };
      const start = performance.now();
      const ok = await this.#poll(async (node) => {
        const taken = (await node.set(grant.key, grant.token, 'PX', ttlMs, 'NX')) === 'OK';
        if (taken && grant.abandoned) this.#forget(node, grant);
        return taken;
      }, ttlMs / 3);
      grant.until = start + ttlMs - this.#drift(ttlMs);
      if (ok && grant.until - performance.now() > 10) return grant;
      await this.#leave(grant);
      await delay(ttlMs * (0.02 + 0.08 * Math.random()));
    }
    throw new NotAcquiredError(`could not lock ${resource}`);
  }

  async #leave(grant: Grant): Promise<void> {
    grant.abandoned = true;
    const free = (node: Redis) => node.eval(DELETE, 1, grant.key, grant.token).then(() => true);
    const freed = new Set<Redis>();
    await this.#poll(async (node) => {
      await free(node);
      freed.add(node);
      return true;
    }, grant.ttlMs / 10, this.#nodes.length);
    for (const node of this.#nodes) if (!freed.has(node)) this.#forget(node, grant);
  }

  #forget(node: Redis, grant: Grant): void {
    node.eval(DELETE, 1, grant.key, grant.token).catch(() => {});
  }

  #drift(ttlMs: number): number {
    return Math.ceil(0.01 * ttlMs) + 2;
  }

  #poll(ask: (node: Redis) => Promise<boolean>, timeoutMs: number, needed = this.#quorum): Promise<boolean> {
    return new Promise((resolve) => {
      let yes = 0;
      let answers = 0;
      const timer = setTimeout(() => resolve(false), timeoutMs);
      const finish = (result: boolean) => {
        clearTimeout(timer);
        resolve(result);
      };
      for (const node of this.#nodes)
        ask(node)
          .catch(() => false)
          .then((vote) => {
            answers += 1;
            if (vote) yes += 1;
            if (yes >= needed) finish(true);
            else if (answers === this.#nodes.length) finish(false);
          });
    });
  }
}

export const make: MakeLock = ({ nodes }) => new Guard(nodes);
