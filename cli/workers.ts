import type { Option } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import type { SearchPool } from '../search/index.js';
import { option } from './option.js';
import { whole } from './values.js';

const MOST_WORKERS = 1_024;

/** `--workers`. */
export function workersOption(): Option {
  return option('--workers <n>', 'number of workers (one per core)', whole(1, MOST_WORKERS));
}

/** How many workers there are to be. */
export async function workersOf(wanted: number | undefined): Promise<number> {
  const { canWork, defaultWorkers } = await import('../campaign/index.js');
  if (wanted !== undefined && wanted > 1 && !canWork()) {
    throw new InputError('--workers: workers run from the build, and this runs from the source; use 1');
  }
  return wanted ?? defaultWorkers();
}

/** Helpers for a search, if there are to be any. */
export async function crewFor(wanted: number | undefined): Promise<{ pool?: () => Promise<SearchPool> }> {
  const workers = await workersOf(wanted);
  if (workers === 1) return {};
  return {
    pool: async () => {
      const { createThreadPool } = await import('../campaign/index.js');
      return createThreadPool(workers);
    },
  };
}
