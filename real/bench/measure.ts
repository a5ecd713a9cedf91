import { performance } from 'node:perf_hooks';
import type { Subject } from './subjects.js';
import type { Shape } from './types.js';

const WORKERS: Readonly<Record<Shape, number>> = { serial: 1, concurrent64: 64 };

/** What one subject did in one round. */
export interface Measurement {
  readonly opsPerSecond: number;
  readonly cpuUsPerOp: number;
  readonly latenciesUs: Float64Array;
}

/** Runs `operations` of `subject`; fewer if the signal aborts, `undefined` if it did before the first. */
export async function measure(
  subject: Subject,
  shape: Shape,
  operations: number,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<Measurement | undefined> {
  const latenciesUs = new Float64Array(operations);
  let started = 0;
  let ended = 0;
  const work = async (worker: number) => {
    const resource = `${prefix}:${worker}`;
    while (started < operations && !signal?.aborted) {
      started++;
      const from = performance.now();
      await subject.cycle(resource);
      latenciesUs[ended++] = (performance.now() - from) * 1000;
    }
  };
  const cpu = process.cpuUsage();
  const from = performance.now();
  await Promise.all(Array.from({ length: WORKERS[shape] }, (_, worker) => work(worker)));
  const seconds = (performance.now() - from) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  if (ended === 0) return undefined;
  return {
    opsPerSecond: ended / seconds,
    cpuUsPerOp: (user + system) / ended,
    latenciesUs: latenciesUs.subarray(0, ended),
  };
}

/** The value below which the share `q` of `values` lies; 0 of none. */
export function quantile(values: Float64Array | readonly number[], q: number): number {
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return 0;
  const at = (sorted.length - 1) * q;
  const low = sorted[Math.floor(at)] ?? 0;
  const high = sorted[Math.ceil(at)] ?? low;
  return low + (high - low) * (at - Math.floor(at));
}
