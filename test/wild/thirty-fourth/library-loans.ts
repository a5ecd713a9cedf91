import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 2_000 });
redis.on('error', (err) => console.warn('redis', err.message));

export interface Copy {
  id: string;
  onLoanTo: string | null;
  holdQueue: string[];
  version: number;
}

export interface Catalogue {
  copy(copyId: string, signal: AbortSignal): Promise<Copy | null>;
  /** One transaction; rejects when the copy is no longer at the given version. */
  lend(loan: { copyId: string; patronId: string; dueAt: Date; copyVersion: number }, signal: AbortSignal): Promise<void>;
}

export type CheckoutResult =
  | { ok: true; dueAt: Date }
  | { ok: false; reason: 'busy' | 'unknown-copy' | 'on-loan' | 'reserved' };

const LOCK_TIMEOUT_MS = 20_000;
const WORK_MS = 10_000;
const LOAN_DAYS = 28;

// A check-out takes milliseconds and is cut off at WORK_MS, half of the lock's life, so nothing is refreshed.
function copyMutex(copyId: string): Mutex {
  return new Mutex(redis, `library:copy:${copyId}`, {
    lockTimeout: LOCK_TIMEOUT_MS,
    acquireTimeout: 3_000,
    retryInterval: 80,
    refreshInterval: 0,
  });
}

function dueDate(from: Date): Date {
  const due = new Date(from);
  due.setDate(due.getDate() + LOAN_DAYS);
  due.setHours(23, 59, 59, 0);
  return due;
}

export async function checkOut(catalogue: Catalogue, copyId: string, patronId: string): Promise<CheckoutResult> {
  const mutex = copyMutex(copyId);
  if (!(await mutex.tryAcquire())) return { ok: false, reason: 'busy' };

  const signal = AbortSignal.timeout(WORK_MS);
  try {
    const copy = await catalogue.copy(copyId, signal);
    if (!copy) return { ok: false, reason: 'unknown-copy' };
    if (copy.onLoanTo !== null) return { ok: false, reason: 'on-loan' };
    if (copy.holdQueue.length > 0 && copy.holdQueue[0] !== patronId) return { ok: false, reason: 'reserved' };

    const dueAt = dueDate(new Date());
    signal.throwIfAborted();
    await catalogue.lend({ copyId, patronId, dueAt, copyVersion: copy.version }, signal);
    return { ok: true, dueAt };
  } finally {
    await mutex.release().catch((err) => console.warn('mutex not released, it will lapse', copyId, err));
  }
}
