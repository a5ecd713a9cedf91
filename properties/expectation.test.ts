import { expect, test } from 'vitest';
import { findScenario } from '../scenarios/catalogue.js';
import type { Expectation } from '../scenarios/index.js';
import { judgeAsExpected, judgedProperties, reproduces } from './expectation.js';

const { schedule, expect: s03 } = findScenario('S03');

function differs(expectation: Expectation): string | null {
  return reproduces(expectation, judgeAsExpected(schedule, expectation));
}

test('what a scenario of the catalogue expects of itself is there', () => {
  expect(differs(s03)).toBeNull();
});

test('fields that are left out are not compared', () => {
  expect(differs({ verdict: 'violated' })).toBeNull();
  expect(differs({ verdict: 'violated', violations: [{ property: 'mutual-exclusion' }] })).toBeNull();
});

test('another verdict is a difference', () => {
  expect(differs({ verdict: 'safe' })).toBe('expected safe, but it is violated');
});

test('a violation at another time is a difference', () => {
  const violations = [{ property: 'mutual-exclusion', atUs: 4001, untilUs: 9898000 }] as const;
  expect(differs({ verdict: 'violated', violations })).toBe(
    'expected the violation mutual-exclusion from 4001 us to 9898000 us, ' +
      'but there is mutual-exclusion from 4000 us to 9898000 us',
  );
});

test('a list of violations is complete', () => {
  expect(differs({ verdict: 'violated', violations: [] })).toMatch(
    /^there is a violation that was not expected: mutual/,
  );
});

test('a property that is named is judged, others are not', () => {
  expect(judgedProperties(s03)).not.toContain('quorum-backed');
  const violations = [...(s03.violations ?? []), { property: 'quorum-backed' }] as const;
  expect(differs({ verdict: 'violated', violations })).toBeNull();
});

test('times without availability, claims and the hash are compared where they are given', () => {
  expect(differs({ verdict: 'violated', unavailable: [{ fromUs: 1, toUs: 2 }] })).toBe(
    'expected to be unavailable from 1 to 2 us, but it is none',
  );
  expect(differs({ verdict: 'violated', claims: ['c1@2000'] })).toBe(
    'expected the claims c1@2000, but they are c1@2000 c2@4000',
  );
  expect(differs({ verdict: 'violated', hash: '0' })).toMatch(/^expected the trace hash 0, but it is [0-9a-f]{16}$/);
});

test('a property that a scenario names is looked for, and nothing is said of those that it does not', () => {
  const { schedule: late, expect: known } = findScenario('S45');
  expect(judgeAsExpected(late, known).violations).toEqual([]);
  const expectation: Expectation = { verdict: 'violated', violations: [{ property: 'continuity', atUs: 11_002_000 }] };
  expect(reproduces(expectation, judgeAsExpected(late, expectation))).toBeNull();
});
