import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { choiceOf } from '../deviations/index.js';
import { FAULT_KINDS, type Fault, formatSchedule, parseScheduleText, type Schedule } from '../scenarios/index.js';
import {
  Observer,
  RandomStreams,
  RecordingAdversary,
  ScriptedAdversary,
  setupOf,
  simulate,
  World,
} from '../sim/index.js';
import { schedule } from '../sim/testing/schedule.js';
import { courseArbitrary } from './arbitraries/schedule.js';
import { BOUND_IDS, exceedBound, type FaultModel, WITHIN_ASSUMPTIONS } from './fault-model.js';
import { generateRun, recordRun } from './generated-run.js';
import { withBody } from './schedule-body.js';

const RUNS = 200;

/** As it is after a visit to a file. */
function reread(plan: Schedule): Schedule {
  return parseScheduleText(formatSchedule(plan), 'a file');
}

describe('drawn runs', () => {
  const kinds = new Map<Fault['kind'], number>();
  const fates = { lost: 0, delayed: 0, copied: 0 };
  const weathers: [string, FaultModel][] = [
    ['within all assumptions', WITHIN_ASSUMPTIONS],
    ...BOUND_IDS.map((bound): [string, FaultModel] => [`past ${bound}`, exceedBound(WITHIN_ASSUMPTIONS, bound, 1.02)]),
  ];

  it.each(weathers)(`${RUNS} of them %s replay from their files with the same hashes`, (_, faultModel) => {
    const streams = new RandomStreams('replay');
    for (let run = 0; run < RUNS; run++) {
      const { schedule: written, hash } = recordRun(faultModel, streams, run);
      expect(generateRun(faultModel, streams, run).world.context.trace.digest()).toBe(hash);
      expect(simulate(reread(written)).hash).toBe(hash);
      for (const { kind } of written.faults) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      for (const fate of written.fates) {
        if (fate.lost === true) fates.lost++;
        if (fate.delayUs !== undefined) fates.delayed++;
        if (fate.duplicateDelayUs !== undefined) fates.copied++;
      }
    }
  });

  it('were of every kind', () => {
    expect([...kinds.keys()].sort()).toEqual([...FAULT_KINDS].sort());
    for (const kind of FAULT_KINDS) expect(kinds.get(kind), kind).toBeGreaterThan(20);
    expect(Math.min(fates.lost, fates.delayed, fates.copied)).toBeGreaterThan(500);
  });
});

describe('one seed', () => {
  it('run a thousand times gives one hash', () => {
    const hashes = new Set<string>();
    for (let i = 0; i < 1_000; i++) {
      hashes.add(generateRun(WITHIN_ASSUMPTIONS, new RandomStreams('again'), 7).world.context.trace.digest());
    }
    expect(hashes.size).toBe(1);
  });

  it('gives another hash for each run, and each seed others', () => {
    const hash = (seed: string, run: number): string =>
      recordRun(WITHIN_ASSUMPTIONS, new RandomStreams(seed), run).hash;
    const hashes = Array.from({ length: 100 }, (_, run) => [hash('one', run), hash('two', run)]).flat();
    expect(new Set(hashes).size).toBe(200);
  });
});

describe('any schedule', () => {
  const course = courseArbitrary({
    nodes: 3,
    clients: 3,
    ttlMs: 50,
    untilUs: 200_000,
    faults: FAULT_KINDS,
    leastRestartUs: 0,
    setBackDisks: true,
    apart: true,
    mostFaults: 8,
    mostFates: 8,
  });
  const base = schedule({ cluster: { nodes: 3, replicaLagUs: 500 }, untilUs: 400_000 });

  it('runs the same from its file, and as it is written down on the way, traced or not', () => {
    fc.assert(
      fc.property(course, (drawn) => {
        const plan = withBody(base, drawn);
        const setup = setupOf(plan);
        const adversary = new RecordingAdversary(new ScriptedAdversary(plan), plan.clients.length);
        const world = new World(setup, adversary, new Observer(), true);
        world.run();
        const hash = world.context.trace.digest();
        expect(simulate(plan).hash).toBe(hash);
        expect(simulate(reread(plan)).hash).toBe(hash);
        expect(simulate(reread(adversary.schedule(setup, choiceOf(setup.policy)))).hash).toBe(hash);
      }),
      { numRuns: 300, seed: 1 },
    );
  });
});
