import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Tinypool } from 'tinypool';
import type * as libraryTasks from './library-tasks.js';
import type * as tasks from './tasks.js';

type Tasks = typeof tasks & typeof libraryTasks;
type TaskName = keyof Tasks;

/**
 * What a worker is: `thread` starts sooner; a `process` can tell its own CPU time; a `fresh thread` is for one task only.
 */
export type WorkerKind = 'thread' | 'process' | 'fresh thread';

const TASKS = fileURLToPath(new URL('./tasks.js', import.meta.url));
const LIBRARY_TASKS = fileURLToPath(new URL('./library-tasks.js', import.meta.url));
const FILES: Readonly<Record<TaskName, string>> = {
  range: TASKS,
  unit: TASKS,
  hunt: TASKS,
  testCells: LIBRARY_TASKS,
  libraryUnit: LIBRARY_TASKS,
  alone: LIBRARY_TASKS,
  pairs: LIBRARY_TASKS,
};
/** A worker that is to end is in the middle of a task, and hears nothing until that is over. */
const TERMINATE_MS = 5_000;

/** Workers as there are cores, or 1 where this runs from the source, which workers cannot load. */
export function defaultWorkers(): number {
  return canWork() ? availableParallelism() : 1;
}

/** Whether there is a build that workers can load. */
export function canWork(): boolean {
  return existsSync(TASKS);
}

/** Threads or processes that do what `tasks.ts` can do. */
export class WorkerPool {
  readonly size: number;
  private readonly pool: Tinypool;

  constructor(size: number, kind: WorkerKind) {
    this.size = size;
    this.pool = new Tinypool({
      runtime: kind === 'process' ? 'child_process' : 'worker_threads',
      // Fresh ones are made as they are needed.
      minThreads: kind === 'fresh thread' ? 0 : size,
      maxThreads: size,
      isolateWorkers: kind === 'fresh thread',
      terminateTimeout: TERMINATE_MS,
    });
  }

  /** Has a worker do it; rejects if it throws, or if the worker dies. */
  run<N extends TaskName>(name: N, task: Parameters<Tasks[N]>[0]): Promise<Awaited<ReturnType<Tasks[N]>>> {
    return this.pool.run(task, { name, filename: FILES[name] });
  }

  /** Ends the workers, whatever they are at. */
  async close(): Promise<void> {
    await this.pool.destroy();
  }
}
