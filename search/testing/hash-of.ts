import { RollingHash, type Streams } from '../../sim/index.js';
import { drawRun } from '../drawn-run.js';
import { past, WITHIN_ASSUMPTIONS } from '../weather.js';

/** One hash over the traces of this many runs within all assumptions and as many past one. */
export function hashOf(streams: Streams, runs: number): string {
  const hash = new RollingHash();
  for (const weather of [WITHIN_ASSUMPTIONS, past(WITHIN_ASSUMPTIONS, 'step', 2)]) {
    for (let run = 0; run < runs; run++) hash.add(drawRun(weather, streams, run).world.chronicle.trace.value());
  }
  return hash.digest();
}
