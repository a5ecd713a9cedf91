import type { Crew } from '../search/index.js';
import { Pool } from './pool.js';

/** Worker threads that search ranges. */
export function threadCrew(workers: number): Crew {
  const pool = new Pool(workers, 'thread');
  return {
    size: workers,
    search: (plan, from, to) => pool.run('range', { plan, from, to, stopAfter: 1 }),
    close: () => pool.close(),
  };
}
