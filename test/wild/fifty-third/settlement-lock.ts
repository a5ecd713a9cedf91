import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import pino from 'pino';

const log = pino({ name: 'settlement-lock' });

export interface SettlementLock {
  readonly resource: string;
  readonly token: string;
  readonly validForMs: number;
}

export interface ClusterLockOptions {
  ttlMs?: number;
  driftFactor?: number;
  retries?: number;
  retryDelayMs?: number;
}

const DELETE_IF_MINE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class ClusterLock {
  private readonly masters: Redis[];
  private readonly ttlMs: number;
  private readonly driftFactor: number;
  private readonly retries: number;
  private readonly retryDelayMs: number;

  constructor(urls: string[], options: ClusterLockOptions = {}) {
    if (urls.length < 3) throw new RangeError('at least three independent masters are needed');
    this.masters = urls.map((url) => {
      const master = new Redis(url, {
        commandTimeout: 200,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
      });
      master.on('error', (err) => log.debug({ url, err }, 'master'));
      return master;
    });
    this.ttlMs = options.ttlMs ?? 30_000;
    this.driftFactor = options.driftFactor ?? 0.01;
    this.retries = options.retries ?? 5;
    this.retryDelayMs = options.retryDelayMs ?? 250;
  }

  async acquire(resource: string): Promise<SettlementLock | null> {
    for (let i = 0; i <= this.retries; i += 1) {
      const token = randomBytes(16).toString('hex');
      const begun = process.hrtime.bigint();
      const settled = await Promise.allSettled(
        this.masters.map((m) => m.set(resource, token, 'PX', this.ttlMs, 'NX')),
      );
      const elapsedMs = Number(process.hrtime.bigint() - begun) / 1e6;

      const replies = settled.flatMap((s) => (s.status === 'fulfilled' ? [s.value] : []));
      const granted = replies.filter((r) => r === 'OK').length;
      const quorum = Math.floor(replies.length / 2) + 1;
      const validForMs = Math.floor(this.ttlMs - elapsedMs - this.ttlMs * this.driftFactor - 2);

      if (granted >= quorum && validForMs > 0) {
        return { resource, token, validForMs };
      }

      log.info({ resource, granted, replies: replies.length }, 'not granted');
      await this.release({ resource, token });
      await sleep(this.retryDelayMs + Math.floor(Math.random() * this.retryDelayMs));
    }
    return null;
  }

  async release({ resource, token }: Pick<SettlementLock, 'resource' | 'token'>): Promise<void> {
    await Promise.allSettled(this.masters.map((m) => m.eval(DELETE_IF_MINE, 1, resource, token)));
  }
}

export async function settleAcquirer(
  locks: ClusterLock,
  acquirerId: string,
  exportBatch: (acquirerId: string, signal: AbortSignal) => Promise<number>,
): Promise<number | 'busy'> {
  const lock = await locks.acquire(`settlement:${acquirerId}`);
  if (!lock) return 'busy';
  try {
    return await exportBatch(acquirerId, AbortSignal.timeout(lock.validForMs));
  } finally {
    await locks.release(lock);
  }
}
