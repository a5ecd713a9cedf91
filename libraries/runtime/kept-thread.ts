/** How library code keeps its thread: round and round in a loop, or waiting for something outside of it. */
export type Kept = 'loops' | 'waits';

/** How long a thread may be kept, ms. */
export interface KeptLimits {
  /** Time of the processor: a busy machine is no endless loop. */
  readonly busyMs: number;
  /** By the clock, for what waits. */
  readonly waitingMs: number;
  /** How often it is looked at: a machine that sleeps, or a process that is stopped, does not look. */
  readonly tickMs: number;
}

/**
 * Says how a thread is kept for too long; for another thread, which asks once a tick. Its text is run there: it uses nothing
 * that is outside of it, and names no function.
 *
 * @param beats - How often the library code has let go, and whether it has the thread at all.
 */
export function keptThread(beats: Int32Array, { busyMs, waitingMs, tickMs }: KeptLimits): () => Kept | null {
  let [last, usedMs, sinceMs] = [-1, 0, 0];
  let before = process.cpuUsage();
  return () => {
    const now = Atomics.load(beats, 0);
    const { user, system } = process.cpuUsage(before);
    before = process.cpuUsage();
    const isKept = now === last && Atomics.load(beats, 1) !== 0;
    last = now;
    sinceMs = isKept ? sinceMs + tickMs : 0;
    // Of what the whole process has used, this thread may have used all.
    usedMs = isKept ? usedMs + Math.min(tickMs, (user + system) / 1000) : 0;
    return usedMs >= busyMs ? 'loops' : sinceMs >= waitingMs ? 'waits' : null;
  };
}
