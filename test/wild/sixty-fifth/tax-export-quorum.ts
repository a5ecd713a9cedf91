import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { logger } from '../logger';
import type { ExportStore, TaxDb } from './types';

const TTL_MS = 60_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const PAGE_TIMEOUT_MS = 10_000;
const STEP_MS = 2 * PAGE_TIMEOUT_MS + 5_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export function connectNodes(urls = (process.env.LOCK_NODES ?? '').split(',')): Redis[] {
  if (urls.length < 3 || urls.length % 2 === 0) throw new Error('LOCK_NODES needs an odd number of nodes, 3 or more');
  return urls.map((url) => {
    const node = new Redis(url.trim(), { commandTimeout: 300, maxRetriesPerRequest: 0, enableOfflineQueue: false });
    node.on('error', (err) => logger.warn({ err, url }, 'lock node'));
    return node;
  });
}

export class QuorumLock {
  private readonly nodes: readonly Redis[];
  private readonly key: string;
  private readonly token = randomUUID();
  private validUntil = 0;

  private constructor(nodes: readonly Redis[], key: string) {
    this.nodes = nodes;
    this.key = key;
  }

  static async acquire(nodes: readonly Redis[], key: string, attempts = 5): Promise<QuorumLock | null> {
    for (let i = 0; i < attempts; i++) {
      const lock = new QuorumLock(nodes, key);
      const ok = await lock.vote(async (n) => (await n.set(key, lock.token, 'PX', TTL_MS, 'NX')) === 'OK');
      if (ok) return lock;
      await lock.release();
      await sleep(200 + Math.random() * 400);
    }
    return null;
  }

  get remainingMs(): number {
    return this.validUntil - performance.now();
  }

  /** Leaves at least `ms` of validity, or throws. */
  async ensure(ms: number): Promise<void> {
    if (this.remainingMs >= ms) return;
    if (this.remainingMs <= 0) throw new Error(`${this.key}: lock expired`);
    const ok = await this.vote(async (n) => (await n.eval(EXTEND, 1, this.key, this.token, TTL_MS)) === 1);
    if (!ok || this.remainingMs < ms) throw new Error(`${this.key}: lock could not be extended`);
  }

  async release(): Promise<void> {
    this.validUntil = 0;
    await Promise.allSettled(this.nodes.map((n) => n.eval(RELEASE, 1, this.key, this.token)));
  }

  private async vote(ask: (node: Redis) => Promise<boolean>): Promise<boolean> {
    const startedAt = performance.now();
    const votes = await Promise.allSettled(this.nodes.map(ask));
    const yes = votes.filter((v) => v.status === 'fulfilled' && v.value).length;
    const validUntil = startedAt + TTL_MS - DRIFT_MS;
    if (yes < Math.floor(this.nodes.length / 2) + 1 || performance.now() >= validUntil) return false;
    this.validUntil = validUntil;
    return true;
  }
}

export async function exportTaxYear(
  nodes: readonly Redis[],
  db: TaxDb,
  store: ExportStore,
  tenant: string,
  year: number,
): Promise<'done' | 'busy' | 'exists'> {
  const lock = await QuorumLock.acquire(nodes, `tax-export:${tenant}:${year}`);
  if (!lock) return 'busy';

  try {
    await lock.ensure(STEP_MS);
    if (await store.exists(tenant, year, { timeoutMs: PAGE_TIMEOUT_MS })) return 'exists';

    const draft = await store.createDraft(tenant, year, { timeoutMs: PAGE_TIMEOUT_MS });
    let cursor: string | null = null;
    do {
      await lock.ensure(STEP_MS);
      const page = await db.bookings(tenant, year, { cursor, limit: 500, timeoutMs: PAGE_TIMEOUT_MS });
      await draft.append(page.rows, { timeoutMs: PAGE_TIMEOUT_MS });
      cursor = page.next;
    } while (cursor);

    // A draft is invisible until here; one that is left behind is swept nightly.
    await lock.ensure(STEP_MS);
    await draft.publish({ ifAbsent: true, timeoutMs: PAGE_TIMEOUT_MS });
    logger.info({ tenant, year }, 'tax export published');
    return 'done';
  } finally {
    await lock.release();
  }
}
