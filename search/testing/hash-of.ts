import { type RandomStreams, RollingHash } from '../../sim/index.js';
import { exceedBound, WITHIN_ASSUMPTIONS } from '../fault-model.js';
import { generateRun } from '../generated-run.js';

/** One hash over the traces of this many runs within all assumptions and as many past one. */
export function hashOf(streams: RandomStreams, runs: number): string {
  const hash = new RollingHash();
  for (const faultModel of [WITHIN_ASSUMPTIONS, exceedBound(WITHIN_ASSUMPTIONS, 'clock-step', 2)]) {
    for (let run = 0; run < runs; run++) hash.add(generateRun(faultModel, streams, run).world.context.trace.value());
  }
  return hash.digest();
}
