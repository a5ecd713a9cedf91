import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

export interface QuorumLockOptions {
  ttlMs?: number;
  retries?: number;
  retryDelayMs?: number;
  /** How long one node may take to answer. Small against ttlMs. */
  nodeTimeoutMs?: number;
  /** Allowance for clocks that do not tick at the same rate. */
  driftFactor?: number;
}

export interface Held {
  readonly resource: string;
  readonly token: string;
  readonly validUntil: number;
}

/**
 * Lock over N independent masters (no replicas among them). A node that loses
 * its data has to stay down for longer than the largest TTL in use before it
 * comes back; our supervisor unit has RestartSec=120 for this reason.
 */
export class QuorumLock {
  private readonly quorum: number;
  private readonly opts: Required<QuorumLockOptions>;

  constructor(private readonly nodes: readonly Redis[], opts: QuorumLockOptions = {}) {
    if (nodes.length < 3) throw new RangeError('need at least three independent nodes');
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.opts = { ttlMs: 20_000, retries: 10, retryDelayMs: 200, nodeTimeoutMs: 150, driftFactor: 0.01, ...opts };
  }

  async acquire(resource: string): Promise<Held> {
    const { ttlMs, retries, retryDelayMs, driftFactor } = this.opts;

    for (let attempt = 0; attempt <= retries; attempt++) {
      const token = randomUUID();
      const start = Date.now();

      const votes = await Promise.all(
        this.nodes.map((n) => this.ask(n.set(resource, token, 'PX', ttlMs, 'NX'), (r) => r === 'OK')),
      );
      const won = votes.filter(Boolean).length;
      const validUntil = start + ttlMs - Math.round(ttlMs * driftFactor) - 2;

      if (won >= this.quorum && Date.now() < validUntil) {
        return { resource, token, validUntil };
      }

      await this.release({ resource, token, validUntil: 0 });
      await delay(retryDelayMs / 2 + Math.random() * retryDelayMs);
    }
    throw new Error(`could not lock ${resource}`);
  }

  /**
   * Goes to all nodes, also to those that said no or did not answer: a SET that
   * timed out can have been executed. The connection keeps commands in order.
   */
  async release(held: Held): Promise<void> {
    await Promise.all(
      this.nodes.map((n) => this.ask(n.eval(UNLOCK, 1, held.resource, held.token), () => true)),
    );
  }

  /** `fn` must not outlive `signal`; it is told 10% of the TTL ahead of the end. */
  async using<T>(resource: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const held = await this.acquire(resource);
    const left = held.validUntil - Date.now() - this.opts.ttlMs * 0.1;
    const signal = AbortSignal.timeout(Math.max(0, Math.floor(left)));
    try {
      return await fn(signal);
    } finally {
      await this.release(held);
    }
  }

  private async ask<R>(reply: Promise<R>, accept: (r: R) => boolean): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<boolean>((resolve) => {
      timer = setTimeout(resolve, this.opts.nodeTimeoutMs, false);
    });
    try {
      return await Promise.race([reply.then(accept, () => false), timeout]);
    } finally {
      clearTimeout(timer);
    }
  }
}

interface Documents {
  load(id: string, signal: AbortSignal): Promise<{ version: number; text: string }>;
  /** UPDATE ... WHERE id = $1 AND version = $2; false if no row matched. */
  saveIf(id: string, version: number, text: string, signal: AbortSignal): Promise<boolean>;
}

export async function rewriteDocument(
  lock: QuorumLock,
  docs: Documents,
  id: string,
  edit: (text: string, signal: AbortSignal) => Promise<string>,
) {
  return lock.using(`doc:${id}`, async (signal) => {
    const { version, text } = await docs.load(id, signal);
    const next = await edit(text, signal);
    signal.throwIfAborted();
    if (!(await docs.saveIf(id, version, next, signal))) {
      throw new Error(`document ${id} has changed meanwhile`);
    }
  });
}
