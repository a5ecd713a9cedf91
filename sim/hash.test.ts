import { expect, it } from 'vitest';
import { RollingHash } from './hash.js';

function digest(...values: readonly number[]): string {
  const hash = new RollingHash();
  for (const value of values) hash.add(value);
  return hash.digest();
}

function eventDigest(at: number, kind: number, x: number, y: number): string {
  const hash = new RollingHash();
  hash.addEvent(at, kind, x, y);
  return hash.digest();
}

it('is the same for the same values', () => {
  expect(digest(1, 2, 3)).toBe(digest(1, 2, 3));
  expect(digest(1, 2, 3)).toMatch(/^[0-9a-f]{16}$/);
});

it('sees values, their order and their number', () => {
  const digests = [[], [0], [0, 0], [1], [1, 2], [2, 1], [1, 2, 0], [-1], [-2]].map((values) => digest(...values));
  expect(new Set(digests).size).toBe(digests.length);
});

it('sees all 53 bits of a time', () => {
  const times = Array.from({ length: 53 }, (_, bit) => 2 ** bit);
  expect(new Set(times.map((time) => digest(time))).size).toBe(times.length);
  expect(new Set(times.map((time) => eventDigest(time, 1, 2, 3))).size).toBe(times.length);
});

it('sees each part of an event', () => {
  const parts: readonly (readonly [number, number, number, number])[] = [
    [0, 0, 0, 0],
    [1, 0, 0, 0],
    [0, 1, 0, 0],
    [0, 0, 1, 0],
    [0, 0, 0, 1],
    [0, 0, 0, -1],
    [5, 1, 2, 3],
    [5, 1, 3, 2],
    [5, 2, 1, 3],
  ];
  expect(new Set(parts.map((part) => eventDigest(...part))).size).toBe(parts.length);
});

it('does not collide in a hundred thousand neighbours', () => {
  const digests = new Set<string>();
  for (let at = 0; at < 100; at++) {
    for (let kind = 0; kind < 10; kind++) {
      for (let x = 0; x < 10; x++) for (let y = 0; y < 10; y++) digests.add(eventDigest(at, kind, x, y));
    }
  }
  expect(digests.size).toBe(100_000);
});

it('starts again', () => {
  const hash = new RollingHash();
  const fresh = hash.digest();
  hash.add(1);
  hash.reset();
  expect(hash.digest()).toBe(fresh);
});

it('has a short form too', () => {
  const hash = new RollingHash();
  hash.add(42);
  expect(hash.value() | 0).toBe(hash.value());
});
