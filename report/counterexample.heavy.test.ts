import { expect, test } from 'vitest';
import { judge } from '../properties/index.js';
import { findScenario, loadCatalogue } from '../scenarios/catalogue.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { variantSchedule } from '../scenarios/variant.js';
import { formatCounterexample, MOST_LINES } from './counterexample.js';
import { ANSI, type Painter } from './painter.js';
import { preventions } from './prevention.js';
import { WIDTH } from './table.js';

function textOf(schedule: Schedule, paint?: Painter, named: readonly PropertyId[] = []): string {
  const judgement = judge(schedule, ['quorum-backed', 'deadlock-free', 'fault-tolerance', 'progress', ...named], true);
  const grave = judgement.violations.find((it) => it.property !== 'quorum-backed');
  const violation = grave ?? judgement.violations[0];
  if (violation === undefined) throw new Error('nothing is violated');
  return formatCounterexample({
    schedule,
    judgement,
    violation,
    run: 317,
    runs: 1000,
    seed: '1',
    foundEvents: 212,
    events: judgement.run.events,
    preventions: preventions(schedule, [violation.property]),
    replay: 'npm run -s lockstep -- replay .lockstep/failures/1-318.json',
    ...(paint === undefined ? {} : { paint }),
  });
}

test('a node that votes twice', () => {
  expect(textOf(findScenario('S03').schedule)).toMatchInlineSnapshot(`
    "✗ mutual exclusion   run 318/1 000   shrunk 212 → 27 events   seed 1
      5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

        t/ms  who       what                                       c1    c2
           0  c1 → *    SET a A NX PX 10000   (n3 n4 lost)          ·     ·
           2  c1        n0 n1 n2 granted, 3/5, valid until 9 898  HELD    ·
           2  c2 → *    SET a B NX PX 10000   (n0 n1 refuse)      HELD    ·
           3  n2        crashes, restarts at once; A forgotten    HELD    ·
           4  c2        n2 n3 n4 granted, 3/5, valid until 9 900  HELD  HELD   ← both
       9 898  c1        validity ends                               ·   HELD
       9 900  c2        validity ends                               ·     ·
      10 002  n0 n1     A expires                                   ·     ·
      10 004  n2 n3 n4  B expires                                   ·     ·

      c1 and c2 both held a for 9 894 ms: n2 voted twice, it forgot A in the restart.
      assumptions   broken: durability (a node that voted may be back without its key)
      prevented by  persistence=always · restart-delay=ttl
      replay        npm run -s lockstep -- replay .lockstep/failures/1-318.json
    "
  `);
});

test('a release that deletes the key of another', () => {
  expect(textOf(findScenario('S34').schedule)).toMatchInlineSnapshot(`
    "✗ mutual exclusion   run 318/1 000   shrunk 212 → 62 events   seed 1
      5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

            t/ms  who     what                                            c2    c3
           0      c1 → *  SET a A NX PX 10000                              ·     ·
           2      c1      n0 n1 n2 granted, 3/5, valid until 9 898         ·     ·
       9 898      c1      validity ends                                    ·     ·
      10 001      c2 → *  SET a B NX PX 10000                              ·     ·
      10 003      c2      n0 n1 n2 granted, 3/5, valid until 19 899      HELD    ·
      12 000      c1 → *  DEL a   (deletes B on n0–n4)                   HELD    ·
      12 000.001  c3 → *  SET a C NX PX 10000                            HELD    ·
      12 002      c3      n0 n1 n2 granted, 3/5, valid until 21 898.001  HELD  HELD   ← both
      19 899      c2      validity ends                                    ·   HELD
      … 3 more lines (replay shows all)

      c2 and c3 both held a for 7 897 ms: n0 n1 n2 voted for both, c1 deleted B, which was
      not its own.
      assumptions   all kept, so this is a bug of the lock
      prevented by  token-check=on
      replay        npm run -s lockstep -- replay .lockstep/failures/1-318.json
    "
  `);
});

test('a write after a pause', () => {
  expect(textOf(findScenario('S24').schedule)).toMatchInlineSnapshot(`
    "✗ no stale write   run 318/1 000   shrunk 212 → 41 events   seed 1
      5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

          t/ms  who     what                                        c1    c2
           0    c1 → *  SET a A NX PX 10000                          ·     ·
           2    c1      n0 n1 n2 granted, 3/5, valid until 9 898   HELD    ·
           7    c1      is frozen until 20 000                     HELD    ·
       9 898    c1      validity ends, unnoticed                     ·     ·
      10 003    c2      n0 n1 n2 granted, 3/5, valid until 19 899    ·   HELD
      10 004.5  c2      sends a write to a                           ·   HELD
      10 005.5  c2      its write reaches a                          ·   HELD
      20 000    c1      sends a write to a                           ·     ·
      20 001    c1      its write reaches a                          ·     ·    ← not held
      … 7 more lines (replay shows all)

      A write of c1 reached a 10 103 ms after its claim had ended: c1 was frozen from 7 to
      20 000, between its check and the write; c2 had written meanwhile, at 10 005.5.
      assumptions   broken: bounded-write-delay (a write may be later than its check allows)
      prevented by  none of the known mitigations on this schedule
      replay        npm run -s lockstep -- replay .lockstep/failures/1-318.json
    "
  `);
});

test('a long story is told by its most relevant lines', () => {
  const scenario = findScenario('S12');
  const unsafe = scenario.neighbours.find((it) => it.expect.verdict === 'violated');
  if (unsafe === undefined) throw new Error('S12 has no unsafe neighbour');
  const schedule = variantSchedule(scenario, unsafe);
  const [first, ...others] = schedule.clients;
  const [lock] = first?.locks ?? [];
  if (first === undefined || lock === undefined) throw new Error('S12 has no lock');
  // Many more attempts of a client that has nothing to do with it.
  const busy = { id: 'c3', locks: [{ ...lock, atUs: 10_000 }] };
  expect(textOf({ ...schedule, clients: [first, ...others, busy] })).toMatchInlineSnapshot(`
    "✗ mutual exclusion   run 318/1 000   1 098 events   seed 1
      5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

        t/ms  who       what                                       c1    c2
           0  c1 → *    SET a A NX PX 10000   (n3 n4 lost)          ·     ·
           2  c1        n0 n1 n2 granted, 3/5, valid until 9 898  HELD    ·
           2  c2 → *    SET a B NX PX 10000                       HELD    ·
           3  n0 n1 n2  crashes, restarts at once; A forgotten    HELD    ·
           4  c2        n0 n1 n2 granted, 3/5, valid until 9 900  HELD  HELD   ← both
       9 898  c1        validity ends                               ·   HELD
      … 106 more lines (replay shows all)

      c1 and c2 both held a for 9 894 ms: n0 n1 n2 voted for both, they forgot A in the
      restart.
      assumptions   broken: durability (a node that voted may be back without its key)
      prevented by  persistence=always · restart-delay=ttl (unavailable)
      replay        npm run -s lockstep -- replay .lockstep/failures/1-318.json
    "
  `);
});

const violated = loadCatalogue().filter((scenario) => scenario.expect.verdict === 'violated');

test.each(violated.map((scenario) => [scenario.id, scenario] as const))(
  '%s fits into an issue',
  (_id, { schedule, expect: { violations = [] } }) => {
    const named = violations.map(({ property }) => property);
    const lines = textOf(schedule, undefined, named).trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(MOST_LINES);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(WIDTH);
    // What is said comes to an end, or it is seen that there is more.
    expect(lines[lines.findIndex((line) => line.startsWith('  assumptions')) - 1]).toMatch(/[.…]$/);
  },
);

test('colours change nothing but colour', () => {
  const { schedule } = findScenario('S03');
  const coloured = textOf(schedule, ANSI);
  expect(coloured).not.toBe(textOf(schedule));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  expect(coloured.replace(/\u001b\[\d+m/g, '')).toBe(textOf(schedule));
});
