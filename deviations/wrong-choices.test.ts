import { describe, expect, it } from 'vitest';
import { heldLock, TestLock } from '../core/testing/lock.js';
import { lockPolicyOf, policyWith } from './index.js';

/*
 * Choices that known clients got wrong, step by step: planted bugs are made of them.
 */

const kinds = (lock: TestLock): string[] => lock.outcomes.map(({ type }) => type);

describe('the life of a key', () => {
  it.each([
    [[], 10_000, 10_000],
    [['key-thousandfold'], 10_000, 10_000_000],
    [['key-thousandth'], 10_000, 10],
    [['key-thousandth'], 2_999, 2],
    [['key-thousandth'], 10, 1],
    [['key-for-ever'], 10_000, 2 ** 40],
  ] as const)('deviating by %j: %i ms are %i', (deviations, ttlMs, life) => {
    expect(lockPolicyOf(policyWith({ deviations })).rules.keyLife(ttlMs, 0)).toBe(life);
    expect(lockPolicyOf(policyWith({ deviations })).rules.keyLife(ttlMs, 3)).toBe(life);
  });

  it.each([
    [10_000, 0, 10_000],
    [10_000, 1, 10_000_000],
    [10_000, 2, 10_000_000_000],
    [10_000, 3, 2 ** 40],
    [1, 4, 10 ** 12],
    [1, 5, 10 ** 12],
  ])('converted once more with each retry: %i ms on attempt %i are %i', (ttlMs, attempt, life) => {
    expect(lockPolicyOf(policyWith({ deviations: ['key-thousandfold-per-retry'] })).rules.keyLife(ttlMs, attempt)).toBe(
      life,
    );
  });
});

describe('a node that answers with an error', () => {
  it('counts as a vote where errors are taken for votes, and a no stays a no', () => {
    const lock = new TestLock({ deviations: ['error-is-vote'] }).acquire();
    lock.yes(0).error(1).no(2);
    expect(lock.state.phase).toBe('acquiring');
    expect(lock.votes()).toEqual({ granted: [0, 1], refused: [2], failed: [] });
    lock.error(3);
    expect(lock.state.phase).toBe('held');
  });

  it('counts as a vote when it does not answer in time, too', () => {
    const lock = new TestLock({ deviations: ['error-is-vote'] }).acquire();
    lock.yes(0).no(1).at(50).fire('attempt');
    expect(lock.state.phase).toBe('held');
    expect(lock.votes()).toEqual({ granted: [0, 2, 3, 4], refused: [1], failed: [] });
  });

  it('ends the acquisition where nobody catches the exception; a refusal does not', () => {
    const lock = new TestLock({ deviations: ['error-aborts'] }).acquire();
    lock.yes(0).no(1);
    expect(lock.state.phase).toBe('acquiring');
    lock.error(2);
    expect(lock.outcomes).toMatchObject([{ type: 'failed', reason: 'unreachable' }]);
  });

  it('ends it by not answering in time, unless all have', () => {
    const lock = new TestLock({ deviations: ['error-aborts'] }).acquire();
    lock.yes(0, 1).at(50).fire('attempt');
    expect(lock.outcomes).toMatchObject([{ type: 'failed', reason: 'unreachable' }]);
  });
});

it('a client that reads its grants as errors gets no lock from nodes that all said yes', () => {
  const lock = new TestLock({ deviations: ['grant-is-error'] }).acquire().yes(0, 1, 2, 3, 4);
  expect(lock.state.phase).toBe('waiting');
  expect(lock.votes()).toMatchObject({ granted: [] });
});

it('a client that does not pause tries again in the same instant', () => {
  const lock = new TestLock({ deviations: ['no-pauses'] }).acquire();
  lock.at(7).no(0, 1, 2);
  expect(lock.state.phase).toBe('waiting');
  expect(lock.armed.get('retry')).toBe(7);
});

describe('a client without a timer for the end of its claim', () => {
  const extending = (): TestLock => {
    const lock = heldLock({ deviations: ['no-alarm', 'extends-late', 'loss-noticed-at-failure'] });
    expect(lock.armed.has('expiry')).toBe(false);
    return lock.extend();
  };

  it('arms none after an extension either', () => {
    const lock = extending().yes(0, 1, 2);
    expect(kinds(lock).at(-1)).toBe('extended');
    expect(lock.armed.has('expiry')).toBe(false);
  });

  it('is told of the loss when an extension fails after the end', () => {
    const lock = extending();
    const end = lock.state.hold.deadline / 1000;
    lock.at(end).no(0, 1, 2);
    expect(kinds(lock).slice(-2)).toEqual(['not-extended', 'lost']);
    expect(lock.reported).toContain('lost');
    expect(lock.state.phase).toBe('lost');
  });

  it('is told of nothing when it fails before the end, or once more', () => {
    const lock = extending();
    const end = lock.state.hold.deadline / 1000;
    lock.at(end - 1).no(0, 1, 2);
    expect(kinds(lock).at(-1)).toBe('not-extended');
    expect(lock.state.phase).toBe('held');
    lock
      .extend()
      .at(end + 1)
      .no(0, 1, 2);
    lock.extend().no(0, 1, 2);
    expect(kinds(lock).filter((it) => it === 'lost')).toHaveLength(1);
  });

  it('is told of it when a quorum extends too late for anything to be left', () => {
    const lock = extending();
    lock.at(lock.state.hold.deadline / 1000 + 20_000).yes(0, 1, 2);
    expect(kinds(lock).slice(-2)).toEqual(['not-extended', 'lost']);
  });
});

describe('a release in two steps', () => {
  it('deletes once it has seen its own token, and counts the deletion only', () => {
    const lock = heldLock({ deviations: ['gets-then-deletes'] }).release();
    const look = lock.newest('release');
    expect(look.round).toBe(0);
    lock.answer(look, 'yes', 0, 1, 2);
    expect(lock.state.phase).toBe('releasing');
    const deletion = lock.newest('release');
    expect(deletion).toEqual({ ...look, round: 1 });
    lock.answer(deletion, 'yes', 0, 1, 2);
    expect(lock.state.phase).toBe('released');
  });

  it('leaves what is not its own', () => {
    const lock = heldLock({ deviations: ['gets-then-deletes'] }).release();
    const look = lock.newest('release');
    lock.answer(look, 'no', 0, 1, 2);
    expect(lock.newest('release')).toBe(look);
    expect(lock.state.phase).toBe('released');
  });
});
