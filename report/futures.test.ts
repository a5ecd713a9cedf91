import { expect, test } from 'vitest';
import { judgeAsExpected } from '../properties/expectation.js';
import { mitigate } from '../scenarios/index.js';
import { counterfactual, likelihood } from './futures.js';
import { CATALOGUE } from './testing/scenes.js';

const scenario = CATALOGUE.find(({ id }) => id === 'S03');
if (scenario === undefined) throw new Error('there is no S03');
const { schedule, expect: expected } = scenario;
const judgement = judgeAsExpected(schedule, expected);

test('after the violation every future has it, and before the crash few do', () => {
  const found = likelihood(schedule, judgement);
  const points = found?.points ?? [];
  expect(points.at(-1)).toMatchObject({ atUs: 4000, violating: found?.futures });
  expect(points[0]?.violating).toBeLessThan((found?.futures ?? 0) / 2);
  const shares = points.map((it) => it.violating);
  expect(Math.max(...shares.slice(0, -1))).toBeGreaterThan(shares[0] ?? 0);
});

test('the same run has the same futures', () => {
  expect(likelihood(schedule, judgement)).toEqual(likelihood(schedule, judgement));
});

test('what is known to prevent it prevents it on the same futures, and what is not, does not', () => {
  const found = counterfactual(schedule, judgement, ['persistence=always', 'ttl=20s']);
  const [none, persistence, ttl] = found?.rows ?? [];
  expect(none).toMatchObject({ mitigation: '', runs: persistence?.runs });
  expect(none?.violated).toBeGreaterThan(0);
  expect(persistence?.violated).toBe(0);
  expect(ttl?.violated).toBeGreaterThan(0);
});

test('a run without a violation has neither', () => {
  const safe = mitigate(schedule, 'persistence=always');
  expect(likelihood(safe, judgeAsExpected(safe, expected))).toBeNull();
  expect(counterfactual(safe, judgeAsExpected(safe, expected), [])).toBeNull();
});
