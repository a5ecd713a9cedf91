import { expect, test } from 'vitest';
import { policyWith } from '../deviations/index.js';
import { noCounts } from '../properties/coverage.js';
import { RandomStreams } from '../sim/index.js';
import { BOUND_IDS, exceedBound, type FaultModel, WITHIN_ASSUMPTIONS } from './fault-model.js';
import { generateRun, RunGenerator, recordRun } from './generated-run.js';
import { faultModelFor, MUTANTS } from './mutants/registry.js';
import { COMBINED } from './tactics.js';

/** Belief may end in the instant in which an overlap, or the want of a majority, was reported. */
const OF_BELIEF = ['mutual-exclusion', 'quorum-backed'] as const;

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

/** Worlds of several sizes, with and without fencing tokens, and all planted bugs. */
const MIXED: readonly FaultModel[] = [
  WITHIN_ASSUMPTIONS,
  { ...WITHIN_ASSUMPTIONS, nodes: 3, policy: policyWith({ settings: { fencing: true } }), resource: 'fencing' },
  { ...WITHIN_ASSUMPTIONS, nodes: 9, clients: 5 },
  { ...WITHIN_ASSUMPTIONS, nodes: 1, clients: 2 },
  ...BOUND_IDS.map((bound) => exceedBound(WITHIN_ASSUMPTIONS, bound, 1.5)),
  ...MUTANTS.map((mutant) => faultModelFor(mutant)),
];

test('a run in a world that was used before is the same as in a new one', () => {
  const streams = new RandomStreams('used again');
  const generator = new RunGenerator();
  let violations = 0;
  for (let run = 0; run < 6 * MIXED.length; run++) {
    const faultModel = MIXED[run % MIXED.length] ?? WITHIN_ASSUMPTIONS;
    const said = (make: typeof generateRun): unknown => {
      const counts = noCounts();
      const { world, monitors, adversary } = make(faultModel, streams, run, counts);
      const { closeness, counters, writes } = monitors;
      const seen = { near: closeness.isNear, counters: counters.fewest, writes, strained: adversary.hasStressed };
      const steps = world.clients.map((client) => client.steps);
      const hash = world.context.trace.digest();
      return { run, hash, events: world.events, steps, violations: monitors.violations, counts, ...seen };
    };
    const fresh = said(generateRun);
    expect(said((...of) => generator.generate(...of))).toEqual(fresh);
    violations += (fresh as { violations: readonly unknown[] }).violations.length;
  }
  expect(violations).toBeGreaterThan(10);
});
