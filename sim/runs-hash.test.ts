import { expect, it } from 'vitest';
import { RunsHash } from './runs-hash.js';

type Run = readonly [run: number, trace: number];

const RUNS: readonly Run[] = [
  [0, 17],
  [1, -1],
  [2, 0],
  [3, 0],
  [4294967296, 17],
];

function digestOf(...runs: readonly Run[]): string {
  const hash = new RunsHash();
  for (const [run, trace] of runs) hash.add(run, trace);
  return hash.digest();
}

it('depends neither on the order of runs nor on how they were parted', () => {
  const whole = digestOf(...RUNS);
  expect(whole).toMatch(/^[0-9a-f]{16}$/);
  expect(digestOf(...RUNS.toReversed())).toBe(whole);
  for (let at = 0; at <= RUNS.length; at++) {
    const merged = new RunsHash();
    merged.merge(digestOf(...RUNS.slice(at)));
    merged.merge(digestOf(...RUNS.slice(0, at)));
    expect(merged.digest()).toBe(whole);
  }
});

it('tells runs that are missing, counted twice, exchanged or of another trace', () => {
  const digests = [
    digestOf(),
    digestOf(...RUNS),
    digestOf(...RUNS.slice(1)),
    digestOf(...RUNS, [0, 17]),
    digestOf(...RUNS, [2, 0]),
    digestOf([0, -1], [1, 17], ...RUNS.slice(2)),
    digestOf([0, 16], ...RUNS.slice(1)),
    digestOf([4294967296, 17], ...RUNS.slice(1, 4), [8589934592, 17]),
  ];
  expect(new Set(digests).size).toBe(digests.length);
  expect(digests[0]).toBe('0'.repeat(16));
});

it('has no two of a hundred thousand small sets alike', () => {
  const digests = Array.from({ length: 100_000 }, (_, i) => digestOf([i, i % 7]));
  expect(new Set(digests.map((it) => it.slice(0, 8))).size).toBeGreaterThan(99_990);
  expect(new Set(digests).size).toBe(digests.length);
});
