import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

/** REDIS_NODES=redis://a:6379,redis://b:6379,redis://c:6379 (independent masters, no replication between them) */
export function connectNodes(list = process.env.REDIS_NODES ?? ''): Redis[] {
  return list.split(',').filter(Boolean).map((url) => {
    const node = new Redis(url, {
      commandTimeout: 250,
      maxRetriesPerRequest: 1,
      autoResendUnfulfilledCommands: false,
    });
    node.on('error', (err) => console.warn('%s: %s', url, err.message));
    return node;
  });
}

interface Grant {
  key: string;
  token: string;
  validUntil: number;
}

export class LedgerQuorum {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(nodes: Redis[]) {
    if (nodes.length === 0) throw new Error('no Redis nodes configured');
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  private async tryOnce(key: string, ttlMs: number): Promise<Grant | null> {
    const token = randomUUID();
    const startedAt = performance.now();
    const replies = await Promise.allSettled(
      this.nodes.map((node) => node.set(key, token, 'PX', ttlMs, 'NX')),
    );
    const votes = replies.filter((reply) => reply.status === 'fulfilled').length;
    const drift = ttlMs * 0.01 + 2;
    const validUntil = startedAt + ttlMs - drift;

    if (votes >= this.quorum && performance.now() < validUntil) return { key, token, validUntil };
    await this.release({ key, token, validUntil });
    return null;
  }

  async acquire(key: string, ttlMs: number, attempts = 10): Promise<Grant> {
    for (let attempt = 0; attempt < attempts; attempt++) {
      const grant = await this.tryOnce(key, ttlMs);
      if (grant) return grant;
      await sleep(50 + Math.random() * 200);
    }
    throw new Error(`no quorum for ${key} after ${attempts} attempts`);
  }

  /** On every node, also on those that did not answer: they may hold the key nevertheless. */
  async release(grant: Grant): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(RELEASE, 1, grant.key, grant.token)));
  }

  async run<T>(ledgerId: string, ttlMs: number, post: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const grant = await this.acquire(`ledger:${ledgerId}`, ttlMs);
    const lapse = new AbortController();
    const timer = setTimeout(
      () => lapse.abort(new Error(`lock on ledger ${ledgerId} lapsed`)),
      Math.max(0, grant.validUntil - performance.now()),
    );
    try {
      const result = await post(lapse.signal);
      if (performance.now() >= grant.validUntil) throw new Error(`ledger ${ledgerId}: posted after the lock lapsed`);
      return result;
    } finally {
      clearTimeout(timer);
      await this.release(grant);
    }
  }
}
