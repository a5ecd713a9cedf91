import { setFlagsFromString } from 'node:v8';

/** Runs of a search from which on it gains: to compile more takes two or three seconds of CPU, and saves some microseconds a run. */
const MANY_RUNS = 2_000_000;

/**
 * Before a search of so many runs: lets V8 put more of the small functions that a hot one calls into its machine code, 3,000
 * bytes of bytecode in place of 920. An event of the simulator goes through some thirty of them. It holds for what the whole
 * process, with its threads, compiles from then on, and changes no result.
 */
export function inlineFor(runs: number): void {
  if (runs >= MANY_RUNS) setFlagsFromString('--max-inlined-bytecode-size-cumulative=3000');
}
