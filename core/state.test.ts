import { describe, expect, it } from 'vitest';
import { copyState, initialState, type LockState } from './state.js';
import { heldLock } from './testing/lock.js';

describe('the state of a lock', () => {
  it('is copied field by field, and none is forgotten', () => {
    let number = 0;
    const numbered = (value: unknown): unknown =>
      typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, numbered(inner)]))
        : ++number;
    const state = numbered(initialState()) as LockState;
    expect(copyState(state)).toEqual(state);
  });

  it('shares nothing with its copy that a step writes to', () => {
    const state = initialState();
    const copy = copyState(state);
    for (const group of ['attempt', 'hold', 'extension', 'release'] as const)
      expect(copy[group]).not.toBe(state[group]);
  });

  it('is plain: numbers, booleans, texts and null, and records of numbers, so that it can be encoded and compared', () => {
    for (const state of [initialState(), heldLock().extend().yes(0, 1, 2).state]) {
      const { votes, counters, electorate, attempt, hold, extension, release, ...rest } = state;
      const { votes: counterVotes, marks, ...numbers } = counters;
      const { votes: roundVotes, ...round } = extension;
      const { votes: releaseVotes, ...sets } = release;
      expect(marks.every((mark) => typeof mark === 'number')).toBe(true);
      for (const group of [rest, electorate, attempt, hold, round, sets]) {
        for (const value of Object.values(group)) {
          expect(value === null || ['number', 'boolean', 'string'].includes(typeof value)).toBe(true);
        }
      }
      expect(new Set(Object.values(numbers).map((value) => typeof value))).toEqual(new Set(['number']));
      for (const { yes, no, failed, ...more } of [votes, counterVotes, roundVotes, releaseVotes]) {
        expect([yes, no, failed].map((set) => typeof set)).toEqual(['number', 'number', 'number']);
        expect(more).toEqual({});
      }
    }
  });

  it('begins idle, equal every time, and not shared', () => {
    expect(initialState().phase).toBe('idle');
    expect(initialState()).toEqual(initialState());
    expect(initialState()).not.toBe(initialState());
  });
});
