import type { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';

// Amendments to a patient's chart are serialised per patient. A single amendment takes
// well under a second; the lease is long only to ride out a slow document store.
const LEASE_MS = 20_000;
const SAFETY_MS = 3_000;

export interface Chart {
  patientId: string;
  revision: number;
  entries: { at: string; author: string; text: string }[];
}

export interface ChartStore {
  load(patientId: string): Promise<Chart>;
  /** Single conditional update; false when the stored revision is no longer `expected`. */
  replace(chart: Chart, expected: number): Promise<boolean>;
}

export class ChartBusyError extends Error {
  readonly patientId: string;
  constructor(patientId: string, why: string) {
    super(`chart ${patientId}: ${why}`);
    this.name = 'ChartBusyError';
    this.patientId = patientId;
  }
}

export async function amendChart(
  redis: Redis,
  store: ChartStore,
  patientId: string,
  amend: (chart: Chart) => Chart,
): Promise<Chart> {
  // One Mutex object per call: each carries its own identifier.
  const mutex = new Mutex(redis, `chart:${patientId}`, {
    lockTimeout: LEASE_MS,
    acquireTimeout: 5_000,
    retryInterval: 100,
    refreshInterval: 0,
  });

  // Counted from before we asked, so waiting in line only makes us more careful.
  const askedAt = performance.now();
  if (!(await mutex.tryAcquire())) {
    throw new ChartBusyError(patientId, 'somebody else is amending it');
  }

  try {
    const current = await store.load(patientId);
    const next = { ...amend(structuredClone(current)), revision: current.revision + 1 };

    if (performance.now() - askedAt > LEASE_MS - SAFETY_MS) {
      throw new ChartBusyError(patientId, 'took too long to prepare the amendment');
    }
    // The revision catches what the clock cannot: being stalled after the check above.
    if (!(await store.replace(next, current.revision))) {
      throw new ChartBusyError(patientId, 'changed underneath, reload and retry');
    }
    return next;
  } finally {
    await mutex.release().catch((err: unknown) => {
      console.warn('chart lock release failed, it will lapse by itself', { patientId, err });
    });
  }
}
