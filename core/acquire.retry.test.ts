import { describe, expect, it } from 'vitest';
import { NO_ANSWERS } from './tally.js';
import { heldLock, ms, TestLock } from './testing/lock.js';

/** A lock whose first attempt was refused by nodes 2 to 4 at 2 ms, granted by node 0, with node 1 still to answer. */
function refusedOnce(change: ConstructorParameters<typeof TestLock>[0] = {}): TestLock {
  return new TestLock(change).acquire().at(2).yes(0).no(2, 3, 4);
}

describe('a failed attempt', () => {
  it('is followed by another after the pause, with a fresh token and a fresh T1', () => {
    const lock = refusedOnce();
    expect(lock.phase).toBe('waiting');
    expect(lock.reported).toEqual([]);
    expect(lock.armed).toEqual(new Map([['retry', 202]]));
    lock.at(202).fire('retry');
    expect(lock.sent).toEqual([{ operation: 'acquire', to: [0, 1, 2, 3, 4], attempt: 1, round: 0 }]);
    expect(lock.newest()).toMatchObject({ token: 'token-1', attempt: 1, ttlMs: 10_000 });
    expect(lock.state).toMatchObject({
      phase: 'acquiring',
      attempt: { number: 1, startedAt: ms(202) },
      calledAt: ms(0),
    });
    expect(lock.votes()).toEqual({ granted: [], refused: [], failed: [] });
    expect(lock.at(204).yes(0, 1, 2).state.hold.deadline).toBe(ms(202 + 9_898));
  });

  it('leaves nothing of its votes and its clean-up to the next one', () => {
    const lock = new TestLock().acquire().yes(0).no(1).error(2, 3);
    lock.yes(0).no(1).error(2, 3).fire('retry');
    expect(lock.votes()).toEqual({ granted: [], refused: [], failed: [] });
    expect(lock.state).toMatchObject({
      attempt: { failure: null },
      release: { sent: 0, lateGrants: 0, votes: NO_ANSWERS },
    });
    expect(lock.state.attempt.asked).toBe(0b11111);
  });

  it('hands the same token to the next one where tokens live as long as the call', () => {
    const lock = refusedOnce({ deviations: ['token-per-call'] })
      .at(202)
      .fire('retry');
    expect(lock.newest()).toMatchObject({ attempt: 1, token: 'token-0' });
  });

  it.each([
    [0, 100],
    [250_000, 150],
    [500_000, 200],
    [999_999, 299.999],
  ])('draws its pause from the chance it was given: %d ppm is %d ms', (jitterPpm, pause) => {
    const lock = new TestLock().acquire(10_000, jitterPpm).at(3).no(0, 1, 2);
    expect(lock.armed.get('retry')).toBe(3 + pause);
  });

  it('draws every pause again', () => {
    const lock = new TestLock().acquire(10_000, 0).no(0, 1, 2).at(100).fire('retry', 500_000).no(0, 1, 2);
    expect(lock.armed.get('retry')).toBe(300);
  });

  it('never waits a negative time', () => {
    const lock = new TestLock({ settings: { retryDelayUs: 50_000 } }).acquire(10_000, 0).at(3).no(0, 1, 2);
    expect(lock.armed.get('retry')).toBe(3);
  });

  it('waits the same time whatever the chance where there is no jitter', () => {
    const lock = new TestLock({ settings: { retryJitterUs: 0 } }).acquire(10_000, 999_999).no(0, 1, 2);
    expect(lock.armed.get('retry')).toBe(200);
  });

  it('is the last when the tries are used up, and only then does the owner hear of it', () => {
    const lock = new TestLock({ settings: { tries: 2 } }).acquire().no(0, 1, 2);
    expect(lock.reported).toEqual([]);
    lock.at(200).fire('retry').at(201).error(0, 1, 2);
    expect(lock.outcomes).toEqual([
      {
        type: 'failed',
        reason: 'unreachable',
        attempts: 2,
        votes: { granted: 0, refused: 0, failed: 0b111, quorum: 3 },
      },
    ]);
    expect(lock.state).toMatchObject({ phase: 'failed', attempt: { failure: null } });
    expect(lock.armed.size).toBe(0);
  });

  it('is never the last where tries are unlimited', () => {
    const lock = new TestLock({ settings: { tries: null } }).acquire();
    for (let attempt = 0; attempt < 50; attempt++) {
      expect(lock.no(0, 1, 2).phase).toBe('waiting');
      lock.fire('retry');
    }
    expect(lock.state.attempt.number).toBe(50);
  });

  it('needs a new chance for the next one, and keeps waiting without', () => {
    const lock = refusedOnce();
    lock.send({ type: 'timer', now: ms(202), timer: 'retry', chance: null });
    expect(lock.phase).toBe('waiting');
  });
});

describe('the clean-up of a failed attempt', () => {
  it('goes to all nodes, also those that refused or whose SET is still on its way, and comes before the pause', () => {
    const lock = refusedOnce();
    expect(lock.effects.map((effect) => effect.type)).toEqual(['cancel', 'send', 'arm']);
    expect(lock.sent).toEqual([{ operation: 'release', to: [0, 1, 2, 3, 4], attempt: 0, round: 0 }]);
    expect(lock.newest('release')).toMatchObject({ token: 'token-0', ttlMs: 0 });
  });

  it('comes before the report when it was the last attempt', () => {
    const lock = refusedOnce({ settings: { tries: 1 } });
    expect(lock.effects.map((effect) => effect.type)).toEqual(['cancel', 'send', 'report']);
  });

  it('goes only where the SET succeeded under the policy that says so, and nowhere if it succeeded nowhere', () => {
    expect(refusedOnce({ deviations: ['cleans-granted'] }).sent).toMatchObject([{ operation: 'release', to: [0] }]);
    expect(new TestLock({ deviations: ['cleans-granted'] }).acquire().no(0, 1, 2).sent).toEqual([]);
  });

  it('is left out where the policy has none', () => {
    expect(refusedOnce({ deviations: ['cleans-nothing'] }).sent).toEqual([]);
    expect(refusedOnce({ settings: { tries: 1 }, deviations: ['cleans-nothing'] }).sent).toEqual([]);
  });

  it('waits for the last attempt where only that is cleaned up', () => {
    const lock = refusedOnce({ settings: { tries: 2 }, deviations: ['cleans-last-only'] });
    expect(lock.sent).toEqual([]);
    lock.at(202).fire('retry').no(0, 1, 2);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [0, 1, 2, 3, 4], attempt: 1 }]);
  });
});

describe('a success that comes after its attempt failed', () => {
  it('needs nothing more once its release has been confirmed', () => {
    const lock = refusedOnce();
    const set = lock.newest('acquire');
    lock.at(3).yes(1).answer(set, 'yes', 1);
    expect(lock.sent).toEqual([]);
  });

  it('is released again when its release had found nothing, or had an error', () => {
    const lock = refusedOnce();
    const set = lock.newest('acquire');
    lock.no(1).error(2).answer(set, 'yes', 1, 2);
    expect(lock.sent).toEqual([
      { operation: 'release', to: [1], attempt: 0, round: 0 },
      { operation: 'release', to: [2], attempt: 0, round: 0 },
    ]);
    expect(lock.state).toMatchObject({ release: { votes: { no: 0, failed: 0 } } });
  });

  it.each(['no', 'error'] as const)('waits for the answer to its release, and releases again on %s', (answer) => {
    const lock = refusedOnce();
    const [set, release] = [lock.newest('acquire'), lock.newest('release')];
    expect(lock.answer(set, 'yes', 1).sent).toEqual([]);
    expect(lock.votes().granted).toEqual([0, 1]);
    expect(lock.answer(release, answer, 1).sent).toEqual([{ operation: 'release', to: [1], attempt: 0, round: 0 }]);
    expect(lock.answer(release, answer, 1).sent).toEqual([]);
  });

  it('is left alone when the answer to its release is that it was deleted', () => {
    const lock = refusedOnce();
    const [set, release] = [lock.newest('acquire'), lock.newest('release')];
    lock.answer(set, 'yes', 1).answer(release, 'yes', 1);
    expect(lock.sent).toEqual([]);
    expect(lock.state).toMatchObject({ release: { lateGrants: 0, votes: { yes: 0b10 } } });
  });

  it('is released before the next attempt if its release is unanswered, since nobody will look at the answer', () => {
    const lock = refusedOnce();
    lock.answer(lock.newest('acquire'), 'yes', 1).at(202).fire('retry');
    expect(lock.sent).toEqual([
      { operation: 'release', to: [1], attempt: 0, round: 0 },
      { operation: 'acquire', to: [0, 1, 2, 3, 4], attempt: 1, round: 0 },
    ]);
    expect(lock.commands.at(-2)?.token).toBe('token-0');
    expect(lock.state.release.lateGrants).toBe(0);
  });

  it('is not released there when the next attempt has the same token, which would be hit', () => {
    const lock = refusedOnce({ deviations: ['token-per-call'] });
    lock.answer(lock.newest('acquire'), 'yes', 1).at(202).fire('retry');
    expect(lock.sent.map(({ operation }) => operation)).toEqual(['acquire']);
  });

  it('is released at once in a later attempt, with its own token, and is no vote there', () => {
    const lock = refusedOnce();
    const first = lock.newest('acquire');
    lock.at(202).fire('retry').at(203).yes(0, 2).answer(first, 'yes', 1);
    expect(lock.sent).toEqual([{ operation: 'release', to: [1], attempt: 0, round: 0 }]);
    expect(lock.newest('release')).toEqual({ ...first, operation: 'release', ttlMs: 0 });
    expect(lock.phase).toBe('acquiring');
    expect(lock.votes()).toEqual({ granted: [0, 2], refused: [], failed: [] });
  });

  it('is released while a later attempt holds the lock, whose own late successes stay', () => {
    const lock = refusedOnce();
    const first = lock.newest('acquire');
    lock.at(202).fire('retry');
    const second = lock.newest('acquire');
    lock.at(203).yes(2, 3, 4).answer(first, 'yes', 1);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [1], attempt: 0 }]);
    expect(lock.answer(second, 'yes', 1).sent).toEqual([]);
    expect(lock.votes().granted).toEqual([1, 2, 3, 4]);
    expect(lock.phase).toBe('held');
  });

  it('says nothing when it was no success', () => {
    const lock = refusedOnce();
    const first = lock.newest('acquire');
    expect(lock.answer(first, 'no', 1).answer(first, 'error', 1).effects).toEqual([]);
    expect(lock.votes()).toEqual({ granted: [0], refused: [2, 3, 4], failed: [] });
    lock.at(202).fire('retry');
    expect(lock.answer(first, 'no', 1).answer(first, 'error', 1).effects).toEqual([]);
  });

  it.each([
    ['to all nodes', { deviations: ['cleans-granted'] }],
    ['at all', { deviations: ['cleans-nothing'] }],
    ['after every attempt', { deviations: ['cleans-last-only'] }],
    ['without hitting the next one, whose token is the same', { deviations: ['token-per-call'] }],
  ] as const)('is left where the policy does not clean up %s', (_, change) => {
    const lock = refusedOnce(change);
    const first = lock.newest('acquire');
    expect(lock.answer(first, 'yes', 1).sent).toEqual([]);
    const sent = lock.at(202).fire('retry').answer(first, 'yes', 1).sent;
    expect(sent).toEqual([]);
  });

  it('is released after the last attempt too', () => {
    const lock = refusedOnce({ settings: { tries: 1 } });
    const [set, release] = [lock.newest('acquire'), lock.newest('release')];
    expect(lock.answer(release, 'no', 1).answer(set, 'yes', 1).sent).toMatchObject([{ operation: 'release', to: [1] }]);
    expect(lock.phase).toBe('failed');
  });
});

describe('giving up during an acquisition', () => {
  it('releases whatever the attempt may set, on all nodes, and ends at once', () => {
    const lock = new TestLock().acquire().at(1).yes(0).release();
    expect(lock.effects.map((effect) => effect.type)).toEqual(['cancel', 'send', 'report']);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [0, 1, 2, 3, 4] }]);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'abandoned', attempts: 1, votes: { granted: 1 } });
    expect(lock.phase).toBe('failed');
    expect(lock.armed.size).toBe(0);
  });

  it('is final: votes that come later take no lock, they are released', () => {
    const lock = new TestLock().acquire();
    const set = lock.newest();
    lock.release();
    lock.no(0, 1, 2, 3).answer(set, 'yes', 0, 1, 2, 3, 4);
    expect(lock.phase).toBe('failed');
    expect(lock.reported).toEqual([]);
    expect(lock.sent.map(({ operation, to }) => [operation, ...to])).toEqual([
      ['release', 0],
      ['release', 1],
      ['release', 2],
      ['release', 3],
    ]);
  });

  it('in the pause between two attempts sends nothing, since that one has been cleaned up', () => {
    const lock = refusedOnce().at(100).release();
    expect(lock.effects.map((effect) => effect.type)).toEqual(['cancel', 'report']);
    expect(lock.armed.size).toBe(0);
    expect(lock.outcome).toMatchObject({ reason: 'abandoned', attempts: 1, votes: { granted: 1, refused: 0b11100 } });
    lock.at(202).fire('retry');
    expect([lock.phase, lock.effects]).toEqual(['failed', []]);
  });

  it('in that pause makes the attempt the last, which is then cleaned up where only the last is', () => {
    expect(refusedOnce({ deviations: ['cleans-last-only'] }).release().sent).toMatchObject([
      { operation: 'release', to: [0, 1, 2, 3, 4], attempt: 0 },
    ]);
    expect(new TestLock({ deviations: ['cleans-last-only'] }).acquire().release().sent).toHaveLength(1);
  });

  it('cancels no time-out where there is none', () => {
    const lock = new TestLock({ settings: { nodeTimeoutUs: null } }).acquire().release();
    expect(lock.effects.map((effect) => effect.type)).toEqual(['send', 'report']);
  });
});

describe('timers of an acquisition', () => {
  it('that go off when it is over change nothing', () => {
    for (const lock of [heldLock(), refusedOnce(), refusedOnce({ settings: { tries: 1 } })]) {
      const before = lock.state;
      lock.fire('attempt');
      expect([lock.state, lock.effects]).toEqual([before, []]);
    }
    const held = heldLock();
    expect(held.fire('retry').effects).toEqual([]);
    const acquiring = new TestLock().acquire();
    expect(acquiring.fire('retry').state.attempt.number).toBe(0);
  });

  it('may be late: votes that come between the time-out and its timer count', () => {
    const lock = new TestLock().acquire().at(900).yes(0, 1, 2);
    expect(lock.state).toMatchObject({ phase: 'held', hold: { deadline: ms(9_898) } });
  });

  it('may be early: the attempt ends a little sooner, and its late votes are released', () => {
    const lock = new TestLock().acquire();
    const set = lock.newest();
    lock.at(49).fire('attempt').no(0).answer(set, 'yes', 0);
    expect(lock.phase).toBe('waiting');
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [0] }]);
  });
});
