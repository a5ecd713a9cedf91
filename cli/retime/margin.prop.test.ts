import { expect, test } from 'vitest';
import { judgeAsExpected } from '../../properties/expectation.js';
import { findScenario } from '../../scenarios/catalogue.js';
import { formatSchedule, parseScheduleText } from '../../scenarios/index.js';
import { findReplayable, NOISE } from './margin.js';

function paced(id: string, noise = NOISE) {
  const { schedule, expect: expected } = findScenario(id);
  return { schedule, expected, found: findReplayable(schedule, expected, noise) };
}

test.each(['S02', 'S03', 'S12', 'S24', 'S34', 'S52'])('%s has a pace at which its verdict stands', (id) => {
  const { schedule, expected, found } = paced(id);
  if ('reason' in found) throw new Error(found.reason);
  expect(judgeAsExpected(found.schedule, expected).verdict).toBe(judgeAsExpected(schedule, expected).verdict);
  // It is a schedule like any other.
  expect(parseScheduleText(formatSchedule(found.schedule), id)).toEqual(found.schedule);
  expect(found.schedule.untilUs).toBeLessThan(schedule.untilUs);
});

test.each(['S13', 'S17', 'S21'])('%s is refused: its margin is below the noise', (id) => {
  const { found } = paced(id);
  expect(found).toEqual({ reason: expect.stringMatching(/^with noise of up to 20 ms its verdict is safe/) });
});

test('on a machine without noise, a millisecond is enough', () => {
  const silent = { lateUs: 0, delayUs: 0, startUs: 0, clockUs: 0 };
  expect(paced('S16', silent).found).toHaveProperty('schedule');
});

test('who claims is told where noise does not change it', () => {
  const { found } = paced('S34');
  expect(found).toMatchObject({ claims: ['c1', 'c2', 'c3'] });
});
