import { describe, expect, it } from 'vitest';
import type { PolicyChange } from '../deviations/index.js';
import { NO_NODES } from './nodes.js';
import { NO_COUNTERS } from './state.js';
import { MARK, ms, TestLock } from './testing/lock.js';

const ALL = [0, 1, 2, 3, 4];

/** Votes of nodes 0, 1 and 2 at 2 ms. */
function elected(policy: PolicyChange = {}): TestLock {
  return new TestLock({ ...policy, settings: { fencing: true, ...policy.settings } }).acquire().at(2).yes(0, 1, 2);
}

/** The same, and counters 4, 7 and 5 read at 4 ms. */
function raising(policy: PolicyChange = {}): TestLock {
  return elected(policy).at(4).counts(4, 0).counts(7, 1).counts(5, 4);
}

describe('a fencing token', () => {
  it('is asked for once the votes are in, and not claimed before a quorum was raised', () => {
    const lock = elected();
    expect(lock.sent).toEqual([{ operation: 'read-counter', to: ALL, attempt: 0, round: 0 }]);
    expect(lock.phase).toBe('reading');
    lock.at(4).counts(4, 0).counts(7, 1);
    expect(lock.sent).toEqual([]);
    lock.counts(5, 4);
    expect(lock.sent).toEqual([{ operation: 'raise-counter', to: ALL, attempt: 0, round: 1 }]);
    expect(lock.newest('read-counter').counter).toBe(0);
    expect(lock.newest()).toMatchObject({ counter: 8, token: 'token-0', ttlMs: 0 });
    expect(lock.phase).toBe('raising');
    expect(lock.at(6).counts(8, 0, 3).phase).toBe('raising');
    expect(lock.counts(8, 2).phase).toBe('held');
    expect(lock.outcome).toMatchObject({
      type: 'acquired',
      deadline: ms(9_898),
      fence: { counter: 8, attempt: 'token-0' },
    });
  });

  it('is not there without fencing, and nobody is asked for it', () => {
    const lock = new TestLock().acquire().at(2).counts(7, 0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'acquired', fence: null });
    expect(lock.state.counters).toEqual(NO_COUNTERS);
  });

  it('does not count a node twice, nor an answer to another round, attempt or question', () => {
    const lock = elected();
    const read = lock.newest();
    lock.counts(1, 0).counts(9, 0);
    lock.answer({ ...read, attempt: 1 }, 'yes', 1, 2).answer({ ...read, round: 1 }, 'yes', 1, 2);
    lock.answer({ ...read, operation: 'raise-counter' }, 'yes', 1, 2);
    expect(lock.state.counters).toMatchObject({ counter: 1, votes: { yes: 1, no: 0, failed: 0 } });
    lock.counts(1, 1, 2);
    expect(lock.answer(read, 'yes', 3, 4).state.counters.votes.yes).toBe(NO_NODES);
  });

  it('is not read from an answer that is no yes', () => {
    const lock = elected();
    lock.send({ type: 'reply', now: lock.now, node: 0, command: lock.newest(), answer: 'error', counter: 9 });
    expect(lock.counts(4, 1, 2, 3).newest()).toMatchObject({ operation: 'raise-counter', counter: 5 });
  });

  it('is waited for without a time-out where nodes have none', () => {
    const lock = elected({ settings: { nodeTimeoutUs: null } });
    expect([lock.phase, lock.armed.size]).toEqual(['reading', 0]);
    expect([lock.counts(4, 0, 1, 2).phase, lock.armed.size]).toEqual(['raising', 0]);
  });

  it.each([
    ['reading', elected],
    ['raising', raising],
    ['lost', () => new TestLock().acquire().at(2).yes(0, 1, 2).at(9_898).fire('expiry')],
  ] as const)('still counts late votes of nodes for the lock while %s', (phase, make) => {
    const late = (answer: 'yes' | 'no'): TestLock => {
      const lock = make();
      expect(lock.phase).toBe(phase);
      return lock.answer(lock.newest('acquire'), answer, 3);
    };
    expect(late('yes').votes()).toEqual({ granted: [0, 1, 2, 3], refused: [], failed: [] });
    expect(late('no').votes()).toEqual({ granted: [0, 1, 2], refused: [3], failed: [] });
  });

  it.each(['reading', 'raising'] as const)('fails the attempt as soon as no quorum can answer while %s', (phase) => {
    const lock = phase === 'reading' ? elected() : raising();
    expect(lock.error(0, 1).phase).toBe(phase);
    expect(lock.error(2).phase).toBe('waiting');
    expect(lock.sent).toMatchObject([{ operation: 'release', to: ALL }]);
    expect(lock.armed.has('attempt')).toBe(false);
    const last = phase === 'reading' ? elected({ settings: { tries: 1 } }) : raising({ settings: { tries: 1 } });
    expect(last.error(0, 1, 2).outcome).toMatchObject({ type: 'failed', reason: 'unreachable' });
  });

  it.each(['reading', 'raising'] as const)('fails the attempt when the time for %s is up', (phase) => {
    const lock = phase === 'reading' ? elected() : raising();
    expect(lock.armed.get('attempt')).toBe(phase === 'reading' ? 52 : 54);
    lock.at(60).counts(9, 0, 1).fire('attempt');
    expect(lock.phase).toBe('waiting');
  });

  it('that comes after the validity has ended is no lock', () => {
    expect(
      raising({ settings: { nodeTimeoutUs: null } })
        .at(9_898)
        .counts(8, 0, 1, 2).phase,
    ).toBe('waiting');
    expect(
      raising({ settings: { nodeTimeoutUs: null } })
        .at(9_897.999)
        .counts(8, 0, 1, 2).phase,
    ).toBe('held');
  });

  it('can be given up while it is asked for', () => {
    const lock = raising().release();
    expect(lock.sent).toMatchObject([{ operation: 'release', to: ALL }]);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'abandoned' });
    expect(lock.counts(8, 0, 1, 2).phase).toBe('failed');
  });

  it('begins again with the next attempt', () => {
    const lock = raising().error(0, 1, 2).at(204).fire('retry');
    expect(lock.state.counters).toEqual(NO_COUNTERS);
    lock.yes(0, 1, 2);
    expect(lock.newest()).toMatchObject({ operation: 'read-counter', attempt: 1, round: 0, token: 'token-1' });
  });
});

describe('a node without a counter', () => {
  it('is no vote, and joins with more than what the others know once they were raised', () => {
    const lock = elected().no(0).counts(4, 1, 2, 3);
    expect(lock.newest()).toMatchObject({ operation: 'raise-counter', counter: 5 });
    lock.no(0).counts(5, 1, 2).counts(9, 3);
    expect(lock.phase).toBe('held');
    expect(lock.sent).toEqual([{ operation: 'join-counter', to: [0], attempt: 0, round: 1 }]);
    expect(lock.newest()).toMatchObject({ counter: 9 + 2 ** 20, token: 'token-0' });
    expect(lock.outcome).toMatchObject({ fence: { counter: 5 } });
  });

  it('joins with a counter, and not with what another one without a counter told', () => {
    const lock = elected().no(0).counts(4, 1, 2, 3);
    lock.no(0, 4).counts(5, 1, 2, 3);
    expect(lock.effects).toContainEqual(
      expect.objectContaining({
        command: expect.objectContaining({ operation: 'join-counter', counter: 5 + 2 ** 20, mark: MARK }),
      }),
    );
  });

  it('that is only found while others are raised joins once a quorum has told its counters again', () => {
    const lock = raising().no(3).counts(8, 0, 1, 2);
    expect(lock.phase).toBe('held');
    expect(lock.sent).toEqual([{ operation: 'raise-counter', to: ALL, attempt: 0, round: 2 }]);
    expect(lock.newest()).toMatchObject({ counter: 8 });
    lock.no(3).counts(8, 0, 1).counts(11, 2);
    expect(lock.sent).toEqual([{ operation: 'join-counter', to: [3], attempt: 0, round: 2 }]);
    expect(lock.newest()).toMatchObject({ counter: 11 + 2 ** 20 });
    expect(lock.state.counters.counter).toBe(8);
  });

  it('that is found after the claim joins as well, even of a lock that was released, and once', () => {
    const lock = elected();
    const read = lock.newest();
    lock.counts(4, 0, 1, 2).counts(5, 0, 1, 2);
    lock.release().yes(0, 1, 2);
    expect(lock.phase).toBe('released');
    lock.answer(read, 'no', 3);
    expect(lock.sent).toMatchObject([{ operation: 'raise-counter', round: 2 }]);
    lock.counts(5, 0, 1, 2);
    expect(lock.sent).toMatchObject([{ operation: 'join-counter', to: [3] }]);
    expect(lock.answer(read, 'no', 3).sent).toEqual([]);
    expect(lock.answer({ ...read, attempt: 1 }, 'no', 4).sent).toEqual([]);
  });

  it.each(['held', 'lost', 'releasing'] as const)('joins a lock that is %s', (phase) => {
    const lock = raising();
    const raise = lock.newest();
    lock.counts(8, 0, 1, 2);
    if (phase === 'lost') lock.at(20_000).fire('expiry');
    if (phase === 'releasing') lock.release();
    expect(lock.phase).toBe(phase);
    expect(lock.answer(raise, 'no', 3).sent).toMatchObject([{ operation: 'raise-counter', round: 2 }]);
  });

  it('joins with what the others answered first, and once', () => {
    const lock = elected().no(3).counts(4, 0, 1, 2);
    const raise = lock.newest();
    lock.counts(5, 0).counts(50, 0).counts(5, 1, 2);
    expect(lock.newest()).toMatchObject({ operation: 'join-counter', counter: 5 + 2 ** 20 });
    expect(lock.answer(raise, 'yes', 4).sent).toEqual([]);
  });

  it('joins a lock that is held with answers to a later round only', () => {
    const lock = raising();
    const raise = lock.newest();
    expect(lock.no(3).counts(8, 0, 1, 2).newest()).toMatchObject({ operation: 'raise-counter', round: 2 });
    expect(lock.answer(raise, 'yes', 0, 1, 2, 4).sent).toEqual([]);
  });

  it('does not join an attempt that has failed', () => {
    const lock = raising();
    const raise = lock.newest();
    expect(lock.error(0, 1, 2).phase).toBe('waiting');
    expect(lock.answer(raise, 'no', 3).sent).toEqual([]);
    const slow = raising({ settings: { nodeTimeoutUs: null } })
      .no(3)
      .at(9_898)
      .counts(8, 0, 1, 2);
    expect([slow.phase, slow.sent.map(({ operation }) => operation)]).toEqual(['waiting', ['release']]);
  });

  it('that somebody else has let join meanwhile is left alone', () => {
    const lock = elected().no(0).counts(4, 1, 2, 3).counts(5, 0, 1, 2);
    expect(lock.phase).toBe('held');
    expect(lock.newest().operation).toBe('raise-counter');
  });
});

describe('too many nodes without a counter', () => {
  it('are asked again, since they may have lost theirs one after the other', () => {
    const lock = elected().no(0, 1).counts(4, 4);
    expect(lock.sent).toEqual([]);
    expect(lock.no(2).sent).toEqual([{ operation: 'read-counter', to: ALL, attempt: 0, round: 1 }]);
    expect(lock.newest().counter).toBe(0);
    lock.no(0).counts(4, 1, 2, 3);
    expect(lock.newest()).toMatchObject({ operation: 'raise-counter', round: 2, counter: 5 });
    expect(lock.counts(5, 1, 2, 3).sent).toEqual([{ operation: 'join-counter', to: [0], attempt: 0, round: 2 }]);
  });

  it.each([
    [3, [0, 1, 2]],
    [4, [3, 0, 1, 4]],
  ])('end the acquisition at once where %s still have none, however often it may try', (_count, nodes) => {
    const lock = elected({ settings: { tries: null } }).no(...nodes);
    expect(lock.newest().operation).toBe('read-counter');
    lock.no(...nodes);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: ALL }]);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'counters-lost' });
    expect(lock.armed.size).toBe(0);
  });

  it('end the last attempt, which is cleaned up by a client that cleans up no other', () => {
    const lock = elected({ settings: { tries: null }, deviations: ['cleans-last-only'] })
      .no(0, 1, 2)
      .no(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'counters-lost' });
    expect(lock.sent).toMatchObject([{ operation: 'release', to: ALL }]);
  });

  it('fail the attempt only, where others turn out to have lost theirs meanwhile', () => {
    const lock = elected().no(0, 1, 2).counts(4, 0).no(1, 3, 4);
    expect(lock.phase).toBe('waiting');
  });

  it('are no reason to give up while they are not known', () => {
    const lock = elected().no(0, 1).error(2, 3);
    expect(lock.phase).toBe('waiting');
    expect(lock.sent).toMatchObject([{ operation: 'release' }]);
  });
});

describe('the policies that are known to be wrong', () => {
  const votes = (change: PolicyChange) => {
    const lock = new TestLock(change).acquire();
    return lock.counts(4, 0).counts(4, 0).counts(7, 1).no(3).counts(5, 2);
  };

  it.each([
    ['max', 7],
    ['sum', 16],
    ['min', 4],
  ] as const)('make the %s of the counters that came with the votes, and ask for nothing', (which, counter) => {
    const lock = votes({ deviations: [`fence-${which}`] });
    expect(lock.outcome).toMatchObject({ type: 'acquired', fence: { counter, attempt: null } });
    expect(lock.answer(lock.newest('acquire'), 'yes', 4).state.counters.counter).toBe(counter);
  });

  it('raise by what came with the votes', () => {
    expect(votes({ settings: { fencing: true }, deviations: ['fence-from-votes'] }).newest()).toMatchObject({
      operation: 'raise-counter',
      counter: 8,
    });
  });

  it('leave the token of the attempt out', () => {
    const lock = raising({ settings: { fencing: true }, deviations: ['fence-without-token'] }).counts(8, 0, 1, 2);
    expect(lock.outcome).toMatchObject({ fence: { counter: 8, attempt: null } });
  });
});

describe('a lock delay', () => {
  it('makes keys outlive the claim, and does not lengthen the claim', () => {
    const lock = new TestLock({ settings: { lockDelayMs: 60_000 } }).acquire(10_000).at(2).yes(0, 1, 2);
    expect(lock.newest('acquire').ttlMs).toBe(70_000);
    expect(lock.state.hold.deadline).toBe(ms(9_898));
    lock.at(100).extend(20_000);
    expect(lock.newest('extend').ttlMs).toBe(80_000);
    expect(lock.yes(...ALL).state.hold.deadline).toBe(ms(100 + 20_000 - 202));
  });
});
