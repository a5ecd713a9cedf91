import type { Detection } from '../search/index.js';
import { eachOf } from './each-of.js';
import { type HuntTask, hunted } from './hunt.js';
import { WorkerPool } from './pool.js';

/** How planted bugs are hunted. */
interface HuntingOptions {
  /** How many hunt at a time. */
  readonly workers: number;
  readonly signal: AbortSignal;
  /** Called as a hunt begins, with how many have ended. */
  readonly onHunt?: (task: HuntTask, done: number) => void;
}

/**
 * Makes hunts, each in one piece by one worker; what is caught, and after how many histories, is the same with any number
 * of them. Workers are processes, which can tell their own CPU time.
 *
 * @returns In the order of the tasks; those that were made, if the signal came.
 */
export async function huntAll(tasks: readonly HuntTask[], options: HuntingOptions): Promise<Detection[]> {
  const { workers, signal, onHunt } = options;
  const size = Math.min(workers, tasks.length);
  const pool = size > 1 ? new WorkerPool(size, 'process') : null;
  let done = 0;
  try {
    const catches = await eachOf(tasks, size, signal, async (task) => {
      onHunt?.(task, done);
      const caught = await (pool === null ? hunted(task, signal) : pool.run('hunt', task));
      done++;
      return caught;
    });
    return catches.filter(({ searches }) => searches > 0);
  } finally {
    await pool?.close();
  }
}
