import { describe, expect, it } from 'vitest';
import { copyState, initialState, type LockState } from './state.js';
import { heldLock } from './testing/lock.js';

describe('the state of a lock', () => {
  it('is copied field by field, and none is forgotten', () => {
    const numbered = Object.fromEntries(
      Object.keys(initialState()).map((key, index) => [key, index + 1]),
    ) as unknown as LockState;
    const copy = copyState(numbered);
    expect(copy).toEqual(numbered);
    expect(copy).not.toBe(numbered);
  });

  it('is plain: numbers, booleans, texts and null, and records of numbers, so that it can be encoded and compared', () => {
    for (const state of [initialState(), heldLock().extend().yes(0, 1, 2).state]) {
      const { votes, counters, roundVotes, releaseVotes, ...rest } = state;
      const { votes: counterVotes, marks, ...numbers } = counters;
      expect(marks.every((mark) => typeof mark === 'number')).toBe(true);
      for (const value of Object.values(rest)) {
        expect(value === null || ['number', 'boolean', 'string'].includes(typeof value)).toBe(true);
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
