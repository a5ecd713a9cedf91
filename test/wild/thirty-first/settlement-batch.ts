import Redis from 'ioredis';
import Redlock, { type RedlockAbortSignal } from 'redlock5';

export interface Transfer {
  id: string;
  from: string;
  to: string;
  cents: number;
  version: number;
}

export interface TransferStore {
  pendingBetween(a: string, b: string, limit: number): Promise<Transfer[]>;
  /** Conditional on (id, version, state = 'pending'); false when the row has moved on. */
  markSettled(id: string, version: number, bankRef: string): Promise<boolean>;
}

export interface BankGateway {
  /** The bank answers a repeated idempotency key with the first result. Rejects after timeoutMs. */
  submit(t: Transfer, opts: { idempotencyKey: string; timeoutMs: number }): Promise<{ ref: string }>;
}

export interface SettlementJob {
  left: string;
  right: string;
}

export interface SettlementReport {
  settled: string[];
  skipped: string[];
}

const LEASE_MS = 30_000;
const BANK_TIMEOUT_MS = 8_000;

function stopIfLost(signal: RedlockAbortSignal): void {
  if (signal.aborted) throw signal.error ?? new Error('settlement lock lost');
}

class SettlementService {
  constructor(
    private readonly locks: Redlock,
    private readonly store: TransferStore,
    private readonly bank: BankGateway,
  ) {}

  settle(job: SettlementJob): Promise<SettlementReport> {
    const accounts = [...new Set([job.left, job.right])].sort();
    const resources = accounts.map((a) => `settlement:account:${a}`);
    return this.locks.using(resources, LEASE_MS, (signal) => this.run(job, signal));
  }

  private async run(job: SettlementJob, signal: RedlockAbortSignal): Promise<SettlementReport> {
    const report: SettlementReport = { settled: [], skipped: [] };
    const transfers = await this.store.pendingBetween(job.left, job.right, 200);
    for (const t of transfers) {
      stopIfLost(signal);
      const { ref } = await this.bank.submit(t, {
        idempotencyKey: `transfer-${t.id}`,
        timeoutMs: BANK_TIMEOUT_MS,
      });
      stopIfLost(signal);
      const moved = await this.store.markSettled(t.id, t.version, ref);
      (moved ? report.settled : report.skipped).push(t.id);
    }
    return report;
  }
}

export interface Queue<T> {
  next(): Promise<{ payload: T; done(): Promise<void>; later(delayMs: number): Promise<void> } | null>;
}

/** Runs until the queue is drained. A job that cannot get its accounts, or fails, goes back into the queue. */
export async function settlementWorker(
  queue: Queue<SettlementJob>,
  store: TransferStore,
  bank: BankGateway,
  redisUrl = process.env.REDIS_URL ?? 'redis://localhost:6379',
): Promise<SettlementReport> {
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: 2, commandTimeout: 2_000 });
  redis.on('error', (e) => console.error('[settlement] redis:', e.message));
  const locks = new Redlock([redis], {
    retryCount: 15,
    retryDelay: 300,
    retryJitter: 150,
    automaticExtensionThreshold: 15_000,
  });
  const service = new SettlementService(locks, store, bank);
  const total: SettlementReport = { settled: [], skipped: [] };

  try {
    for (let job = await queue.next(); job !== null; job = await queue.next()) {
      try {
        const report = await service.settle(job.payload);
        total.settled.push(...report.settled);
        total.skipped.push(...report.skipped);
      } catch (err) {
        console.error(`[settlement] ${job.payload.left}/${job.payload.right}:`, err);
        await job.later(5_000 + Math.random() * 5_000);
        continue;
      }
      await job.done();
    }
  } finally {
    redis.disconnect();
  }
  return total;
}
