import { expect, test } from 'vitest';
import { noCounts } from '../properties/coverage.js';
import { RandomStreams } from '../sim/index.js';
import { generateRun, recordRun } from './generated-run.js';
import { faultModelFor, MUTANTS } from './mutants/registry.js';
import { COMBINED } from './tactics.js';

/** Belief may end in the instant in which an overlap, or the want of a majority, was reported. */
const OF_BELIEF = ['mutual-exclusion', 'validity'] as const;

test.each(['M03', 'M17', 'M32', 'M43'])('a search judges each run of %s to its end', (id) => {
  const mutant = MUTANTS.find((it) => it.id === id);
  expect(mutant).toBeDefined();
  if (mutant === undefined) return;
  const [faultModel, streams] = [faultModelFor(mutant), new RandomStreams(id)];
  const endedEarly: { run: number; violated: boolean }[] = [];
  for (let run = 0; run < 200; run++) {
    const { world, monitors } = generateRun(faultModel, streams, run, noCounts(), COMBINED);
    const violated = monitors.violations.some(({ property }) => OF_BELIEF.some((it) => it === property));
    if (world.context.trace.digest() !== recordRun(faultModel, streams, run, COMBINED).hash)
      endedEarly.push({ run, violated });
  }
  expect(endedEarly).toEqual([]);
});
