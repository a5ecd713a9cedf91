import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export interface QuorumLockSettings {
  ttlMs: number;
  nodeTimeoutMs: number;
  attempts: number;
  retryDelayMs: number;
}

export interface QuorumLease {
  readonly resource: string;
  readonly token: string;
  readonly validUntil: number;
}

export interface GuardedSection {
  readonly signal: AbortSignal;
  extend(): Promise<void>;
}

export class LockUnavailableError extends Error {}

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class QuorumLock {
  private readonly quorum: number;
  private readonly driftMs: number;

  constructor(private readonly nodes: readonly Redis[], private readonly settings: QuorumLockSettings) {
    if (nodes.length < 3) throw new RangeError('at least three independent nodes are needed');
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.driftMs = Math.ceil(settings.ttlMs * 0.01) + 2;
  }

  async acquire(resource: string): Promise<QuorumLease> {
    const { ttlMs, attempts, retryDelayMs } = this.settings;
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const token = randomUUID();
      const startedAt = performance.now();
      const votes = await this.poll(async (node) => (await node.set(resource, token, 'PX', ttlMs, 'NX')) === 'OK');
      const validUntil = startedAt + ttlMs - this.driftMs;
      if (votes >= this.quorum && performance.now() < validUntil) return { resource, token, validUntil };
      await this.release({ resource, token, validUntil });
      if (attempt < attempts) await sleep(retryDelayMs * (0.5 + Math.random()));
    }
    throw new LockUnavailableError(resource);
  }

  async extend(lease: QuorumLease): Promise<QuorumLease> {
    const { ttlMs } = this.settings;
    const startedAt = performance.now();
    const votes = await this.poll(
      async (node) => (await node.eval(EXTEND, 1, lease.resource, lease.token, ttlMs)) === 1);
    const validUntil = startedAt + ttlMs - this.driftMs;
    if (votes < this.quorum || performance.now() >= lease.validUntil) throw new LockUnavailableError(lease.resource);
    return { ...lease, validUntil };
  }

  async release(lease: QuorumLease): Promise<void> {
    await this.poll(async (node) => (await node.eval(RELEASE, 1, lease.resource, lease.token)) === 1);
  }

  /** The section ends when the lease does: pass `signal` on, and call `extend` between steps of long work. */
  async run<T>(resource: string, work: (section: GuardedSection) => Promise<T>): Promise<T> {
    let lease = await this.acquire(resource);
    const controller = new AbortController();
    const expire = () => controller.abort(new LockUnavailableError(`${resource} expired`));
    let timer = setTimeout(expire, lease.validUntil - performance.now());
    const section: GuardedSection = {
      signal: controller.signal,
      extend: async () => {
        controller.signal.throwIfAborted();
        lease = await this.extend(lease);
        controller.signal.throwIfAborted();
        clearTimeout(timer);
        timer = setTimeout(expire, lease.validUntil - performance.now());
      },
    };
    try {
      return await work(section);
    } finally {
      clearTimeout(timer);
      await this.release(lease);
    }
  }

  private async poll(ask: (node: Redis) => Promise<boolean>): Promise<number> {
    const answers = await Promise.all(this.nodes.map((node) => this.within(ask(node)).catch(() => false)));
    return answers.filter(Boolean).length;
  }

  private async within(answer: Promise<boolean>): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => { timer = setTimeout(() => resolve(false), this.settings.nodeTimeoutMs); });
    return Promise.race([answer, late]).finally(() => clearTimeout(timer));
  }
}

export function createJobAssignmentLock(urls: readonly string[]): QuorumLock {
  const nodes = urls.map((url) => {
    const node = new Redis(url, { enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 });
    node.on('error', () => undefined);
    return node;
  });
  return new QuorumLock(nodes, { ttlMs: 12_000, nodeTimeoutMs: 150, attempts: 20, retryDelayMs: 200 });
}
