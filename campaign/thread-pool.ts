import type { SearchPool } from '../search/index.js';
import { WorkerPool } from './pool.js';

/** Worker threads that search ranges. */
export function createThreadPool(workers: number): SearchPool {
  const pool = new WorkerPool(workers, 'thread');
  return {
    size: workers,
    search: (plan, from, to) => pool.run('range', { plan, from, to, stopAfter: 1 }),
    close: () => pool.close(),
  };
}
