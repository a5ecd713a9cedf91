import Redis from 'ioredis';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

// REDLOCK_NODES=redis://a:6379,redis://b:6379,... five independent masters, no replicas.
// Ops: appendfsync always on all of them, a crashed one comes back with its keys.

const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`;

export interface WarehouseLockOptions {
  ttlMs?: number;
  retries?: number;
  retryDelayMs?: number;
  retryJitterMs?: number;
}

export class WarehouseLock {
  constructor(
    private readonly owner: WarehouseRedlock,
    readonly resource: string,
    readonly value: string,
    readonly validUntil: number,
  ) {}

  get msLeft(): number {
    return this.validUntil - performance.now();
  }

  release(): Promise<void> {
    return this.owner.unlock(this.resource, this.value);
  }
}

export class WarehouseRedlock {
  private readonly nodes: Redis[];
  private readonly quorum: number;
  private readonly opts: Required<WarehouseLockOptions>;

  constructor(urls: string[], opts: WarehouseLockOptions = {}) {
    if (new Set(urls).size !== urls.length || urls.length < 3) {
      throw new Error('redlock wants at least three distinct nodes');
    }
    this.nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: 80,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        maxRetriesPerRequest: 0,
      });
      node.on('error', () => undefined); // a dead node simply doesn't vote
      return node;
    });
    this.quorum = Math.floor(urls.length / 2) + 1;
    this.opts = { ttlMs: 12_000, retries: 8, retryDelayMs: 150, retryJitterMs: 120, ...opts };
  }

  async lock(resource: string): Promise<WarehouseLock> {
    const { ttlMs, retries, retryDelayMs, retryJitterMs } = this.opts;
    const drift = Math.ceil(ttlMs * 0.01) + 2;

    for (let attempt = 0; attempt <= retries; attempt++) {
      const value = randomBytes(20).toString('hex');
      const startedAt = performance.now();
      const votes = await Promise.all(this.nodes.map((n) => this.vote(n, resource, value)));
      const granted = votes.filter(Boolean).length;
      const validUntil = startedAt + ttlMs - drift;

      if (granted >= this.quorum && performance.now() < validUntil) {
        return new WarehouseLock(this, resource, value, validUntil);
      }
      await this.unlock(resource, value);
      if (attempt < retries) await sleep(retryDelayMs + Math.random() * retryJitterMs);
    }
    throw new Error(`could not lock ${resource}`);
  }

  /** Every node, also those that said no or nothing: a timed out SET may still have landed. */
  async unlock(resource: string, value: string): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.eval(RELEASE, 1, resource, value)));
  }

  private async vote(node: Redis, resource: string, value: string): Promise<boolean> {
    try {
      return (await node.set(resource, value, 'PX', this.opts.ttlMs, 'NX')) === 'OK';
    } catch {
      return false;
    }
  }
}

export interface StockApi {
  read(sku: string, signal: AbortSignal): Promise<number>;
  write(sku: string, qty: number, opts: { serverTimeoutMs: number }): Promise<void>;
}

const WRITE_BUDGET_MS = 2_000;

export async function adjustStock(redlock: WarehouseRedlock, api: StockApi, sku: string, delta: number) {
  const lock = await redlock.lock(`stock:${sku}`);
  try {
    const qty = await api.read(sku, AbortSignal.timeout(2_000));
    if (lock.msLeft < WRITE_BUDGET_MS + 1_000) throw new Error(`too late to write ${sku}, try again`);
    await api.write(sku, qty + delta, { serverTimeoutMs: WRITE_BUDGET_MS });
  } finally {
    await lock.release();
  }
}
