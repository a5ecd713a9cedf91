import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseSchedule } from '../../scenarios/index.js';
import { judge } from '../judge.js';
import { scheduleArbitrary } from './whole.js';

/** The example of the docstring, line by line. */
function example(): string {
  const text = readFileSync(new URL('./whole.ts', import.meta.url), 'utf8');
  const [, code = ''] = /```ts\n([\s\S]*?)```/.exec(text) ?? [];
  return code.replace(/^ \* ?/gm, '');
}

const base = {
  nodes: 3,
  clients: 2,
  ttlMs: 1_000,
  untilUs: 5_000_000,
  faults: ['crash'] as const,
  leastRestartUs: 2_000_000,
  mostFaults: 2,
  mostFates: 10,
};

it('the example in the documentation runs, and its property holds where nodes stay away for long and clocks are right', () => {
  // Its clocks are drawn as well; here they are right, or there would be counterexamples.
  const run = new Function(
    'fc',
    'scheduleArbitrary',
    'judge',
    example()
      .replace('fc.property(schedules,', 'fc.property(right(schedules),')
      .replace(/^/, 'const right = (all) => all.map((it) => ({ ...it, cluster: { ...it.cluster, clocks: [] } }));\n'),
  );
  expect(() => run(fc, scheduleArbitrary, judge)).not.toThrow();
});

it('every schedule is valid', () => {
  fc.assert(
    fc.property(scheduleArbitrary({ ...base, faults: ['crash', 'pause', 'partition', 'forget'] }), (schedule) => {
      expect(parseSchedule(schedule)).toEqual(schedule);
    }),
  );
});

it('finds a node that is back at once, and shrinks what it finds', () => {
  const schedules = scheduleArbitrary({ ...base, leastRestartUs: 0, persistence: ['none'] });
  const holds = fc.property(schedules, (schedule) => judge(schedule, ['validity']).verdict !== 'violated');
  const { failed, counterexample, numShrinks } = fc.check(holds, { numRuns: 5_000, seed: 7 });
  expect(failed).toBe(true);
  expect(numShrinks).toBeGreaterThan(0);
  const [schedule] = counterexample ?? [];
  expect(schedule?.clients).toHaveLength(1);
  expect(schedule?.faults.length).toBeLessThanOrEqual(2);
});

it('shrinks schedules that it did not generate', () => {
  const schedules = scheduleArbitrary({ ...base, leastRestartUs: 0, persistence: ['none'] });
  const [given] = fc.sample(schedules, { numRuns: 1, seed: 3 });
  if (given === undefined) throw new Error('nothing was generated');
  const { counterexample } = fc.check(
    fc.property(schedules, ({ clients }) => clients.length === 0),
    { examples: [[given]], numRuns: 1 },
  );
  expect(counterexample?.[0]).toMatchObject({ clients: [{ locks: [] }], faults: [], fates: [] });
});
