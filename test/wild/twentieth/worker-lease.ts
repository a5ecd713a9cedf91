import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;

// Independent masters, no replication between them.
const nodes = (process.env.LEASE_NODES ?? 'redis://a:6379,redis://b:6379,redis://c:6379')
  .split(',')
  .map((url) => {
    const node = new Redis(url, { commandTimeout: 250, maxRetriesPerRequest: 0, enableOfflineQueue: false });
    node.on('error', (err) => console.warn('lease node', url, err.message));
    return node;
  });

const QUORUM = Math.floor(nodes.length / 2) + 1;

export class LeaseUnavailable extends Error {}
export class LeaseLost extends Error {}

async function votes(ask: (node: Redis) => Promise<boolean>): Promise<number> {
  const replies = await Promise.allSettled(nodes.map(ask));
  return replies.filter((r) => r.status === 'fulfilled' && r.value).length;
}

export class WorkerLease implements AsyncDisposable {
  private constructor(
    readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    private validUntil: number,
  ) {}

  private static drift(ttlMs: number): number {
    return Math.ceil(ttlMs * 0.01) + 2;
  }

  static async take(name: string, ttlMs = 10_000, attempts = 8): Promise<WorkerLease> {
    const key = `lease:${name}`;
    for (let i = 0; i < attempts; i++) {
      const token = randomBytes(20).toString('hex');
      const startedAt = performance.now();
      const granted = await votes(async (n) => (await n.set(key, token, 'PX', ttlMs, 'NX')) === 'OK');
      const validUntil = startedAt + ttlMs - WorkerLease.drift(ttlMs);
      if (granted >= QUORUM && performance.now() < validUntil) {
        return new WorkerLease(key, token, ttlMs, validUntil);
      }
      // Also on nodes which did not answer: they may have set it all the same.
      await votes(async (n) => (await n.eval(RELEASE, 1, key, token)) === 1);
      await sleep(100 + Math.random() * 300);
    }
    throw new LeaseUnavailable(key);
  }

  /** Milliseconds for which the lease is certainly ours. */
  get remaining(): number {
    return Math.max(0, this.validUntil - performance.now());
  }

  /** Makes sure that `neededMs` are left, extending if they are not. */
  async ensure(neededMs: number): Promise<void> {
    if (this.remaining >= neededMs) return;
    if (this.remaining === 0) throw new LeaseLost(this.key);
    const startedAt = performance.now();
    const extended = await votes(async (n) => (await n.eval(EXTEND, 1, this.key, this.token, this.ttlMs)) === 1);
    const validUntil = startedAt + this.ttlMs - WorkerLease.drift(this.ttlMs);
    if (extended < QUORUM || performance.now() > this.validUntil) {
      this.validUntil = 0;
      throw new LeaseLost(this.key);
    }
    this.validUntil = validUntil;
    if (this.remaining < neededMs) throw new LeaseLost(this.key);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.validUntil = 0;
    await votes(async (n) => (await n.eval(RELEASE, 1, this.key, this.token)) === 1);
  }
}

const STEP_MS = 3_000;

export async function drainQueue(
  queue: string,
  /** Looks at the head of the queue without removing it. */
  peek: () => Promise<string | undefined>,
  /** Does the job and removes it; gives up when the signal fires. */
  handle: (job: string, signal: AbortSignal) => Promise<void>,
): Promise<number> {
  await using lease = await WorkerLease.take(queue);
  let handled = 0;
  for (;;) {
    const job = await peek();
    if (job === undefined) return handled;
    await lease.ensure(STEP_MS + 1_000);
    // One job never takes longer than what has just been ensured.
    await handle(job, AbortSignal.timeout(STEP_MS));
    handled++;
  }
}
