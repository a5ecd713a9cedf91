import { expect, test } from 'vitest';
import { noCounts } from '../properties/coverage.js';
import { Streams } from '../sim/index.js';
import { drawRun, recordRun } from './drawn-run.js';
import { MUTANTS, weatherFor } from './mutants/registry.js';
import { COMBINED } from './tactics.js';

/** Belief may end in the instant in which an overlap, or the want of a majority, was reported. */
const OF_BELIEF = ['mutual-exclusion', 'validity'] as const;

test.each(['M03', 'M17', 'M32', 'M43'])('a search judges each run of %s to its end', (id) => {
  const mutant = MUTANTS.find((it) => it.id === id);
  expect(mutant).toBeDefined();
  if (mutant === undefined) return;
  const [weather, streams] = [weatherFor(mutant), new Streams(id)];
  const endedEarly: { run: number; violated: boolean }[] = [];
  for (let run = 0; run < 200; run++) {
    const { world, monitors } = drawRun(weather, streams, run, noCounts(), COMBINED);
    const violated = monitors.violations.some(({ property }) => OF_BELIEF.some((it) => it === property));
    if (world.chronicle.trace.digest() !== recordRun(weather, streams, run, COMBINED).hash)
      endedEarly.push({ run, violated });
  }
  expect(endedEarly).toEqual([]);
});
