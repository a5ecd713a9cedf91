import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import type { Pool } from 'pg';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export class LockUnavailable extends Error {}
export class LeaseExpired extends Error {}

export interface Lease {
  remainingMs(): number;
  assertValid(needMs?: number): void;
}

export class QuorumLock {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(urls: string[]) {
    this.nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: 80,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
      });
      node.on('error', () => undefined);
      return node;
    });
    this.quorum = Math.floor(this.nodes.length / 2) + 1;
  }

  async run<T>(name: string, ttlMs: number, waitMs: number, fn: (lease: Lease) => Promise<T>): Promise<T> {
    const key = `qlock:${name}`;
    const { token, validUntil } = await this.acquire(key, ttlMs, waitMs);
    const lease: Lease = {
      remainingMs: () => validUntil - performance.now(),
      assertValid: (needMs = 0) => {
        if (validUntil - performance.now() <= needMs) throw new LeaseExpired(name);
      },
    };
    try {
      return await fn(lease);
    } finally {
      await this.unlock(key, token);
    }
  }

  private async acquire(key: string, ttlMs: number, waitMs: number) {
    const drift = Math.ceil(ttlMs * 0.01) + 2;
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const token = randomBytes(20).toString('hex');
      const startedAt = performance.now();
      const votes = await Promise.allSettled(this.nodes.map((n) => n.set(key, token, 'PX', ttlMs, 'NX')));
      const won = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;
      const validUntil = startedAt + ttlMs - drift;

      if (won >= this.quorum && performance.now() < validUntil) return { token, validUntil };

      await this.unlock(key, token);
      if (performance.now() >= giveUpAt) throw new LockUnavailable(key);
      await sleep(100 + Math.random() * 200);
    }
  }

  private async unlock(key: string, token: string) {
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, key, token)));
  }

  close() {
    this.nodes.forEach((n) => n.disconnect());
  }
}

export async function promoteReplica(lock: QuorumLock, pool: Pool, partition: number, pick: (hosts: string[]) => string) {
  return lock.run(`partition:${partition}`, 15_000, 5_000, async (lease) => {
    const { rows } = await pool.query('SELECT epoch, replicas FROM partitions WHERE id = $1', [partition]);
    if (rows.length === 0) throw new Error(`unknown partition ${partition}`);
    const next = pick(rows[0].replicas);

    lease.assertValid(2_000);
    const res = await pool.query(
      'UPDATE partitions SET primary_host = $1, epoch = epoch + 1 WHERE id = $2 AND epoch = $3',
      [next, partition, rows[0].epoch],
    );
    if (res.rowCount !== 1) throw new Error(`partition ${partition} changed since epoch ${rows[0].epoch}`);
    return next;
  });
}
