import { fileURLToPath } from 'node:url';
import { Tinypool } from 'tinypool';
import type { RunStratum } from '../advise/risk/estimate.js';

const TASKS = fileURLToPath(new URL('../advise/risk/stratum-runs.js', import.meta.url));

/** What makes the runs of an estimate. */
export interface RiskPool {
  /** Left out where this thread makes them. */
  readonly run?: RunStratum;
  readonly close: () => Promise<void>;
}

/** Worker threads that make runs of strata; none where there is to be only one. */
export function riskPool(workers: number): RiskPool {
  if (workers === 1) return { close: async () => {} };
  const pool = new Tinypool({ runtime: 'worker_threads', minThreads: workers, maxThreads: workers, filename: TASKS });
  return { run: (task) => pool.run(task, { name: 'runStratum' }), close: () => pool.destroy() };
}
