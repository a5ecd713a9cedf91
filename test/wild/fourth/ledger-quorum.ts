import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

export interface QuorumLock {
  readonly resource: string;
  remaining(): number;
  release(): Promise<void>;
}

export function nodesFromEnv(): Redis[] {
  return (process.env.LEDGER_REDIS_NODES ?? '')
    .split(',')
    .filter(Boolean)
    .map((url) => new Redis(url, { maxRetriesPerRequest: 1, lazyConnect: true }));
}

function bounded<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${ms}ms`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

export class LedgerQuorum {
  private readonly nodes: Redis[];
  private readonly nodeTimeoutMs: number;

  constructor(nodes: Redis[], nodeTimeoutMs = 60) {
    if (nodes.length === 0) throw new Error('no nodes');
    this.nodes = nodes;
    this.nodeTimeoutMs = nodeTimeoutMs;
  }

  private get quorum(): number {
    return Math.floor(this.nodes.length / 2) + 1;
  }

  private async unlockEverywhere(key: string, token: string): Promise<void> {
    await Promise.allSettled(
      this.nodes.map((node) => bounded(node.eval(UNLOCK, 1, key, token), this.nodeTimeoutMs * 4)),
    );
  }

  private async attempt(key: string, ttlMs: number): Promise<{ token: string; until: number } | null> {
    const token = randomUUID();
    const begun = performance.now();
    const votes = await Promise.all(
      this.nodes.map(async (node) => {
        try {
          return (await bounded(node.set(key, token, 'PX', ttlMs, 'NX'), this.nodeTimeoutMs)) === 'OK';
        } catch {
          return false;
        }
      }),
    );
    const drift = Math.ceil(ttlMs * 0.02) + 2;
    const until = begun + ttlMs - drift;
    const granted = votes.filter(Boolean).length;
    if (granted >= this.quorum && until > performance.now()) return { token, until };
    await this.unlockEverywhere(key, token);
    return null;
  }

  async acquire(resource: string, ttlMs: number, retries = 8): Promise<QuorumLock> {
    const key = `ledger:{${resource}}`;
    for (let i = 0; i <= retries; i++) {
      const won = await this.attempt(key, ttlMs);
      if (won) {
        return {
          resource,
          remaining: () => Math.max(0, won.until - performance.now()),
          release: () => {
            const done = this.unlockEverywhere(key, won.token);
            won.until = 0;
            return done;
          },
        };
      }
      await sleep(80 + Math.random() * 160);
    }
    throw new Error(`ledger ${resource} is locked`);
  }
}

export async function postEntries(locks: LedgerQuorum, ledgerId: string, entries: Array<() => Promise<void>>) {
  const lock = await locks.acquire(ledgerId, 8_000);
  try {
    for (const post of entries) {
      if (lock.remaining() < 250) throw new Error(`ran out of time on ledger ${ledgerId}`);
      await post();
    }
  } finally {
    await lock.release();
  }
}
