import { describe, expect, it } from 'vitest';
import { allNodes } from './index.js';
import { heldLock, ms, TestLock } from './testing/lock.js';

describe('a release', () => {
  it('ends the claim at once, before any node has answered', () => {
    const lock = heldLock().at(500).release();
    expect(lock.phase).toBe('releasing');
    expect(lock.effects).toEqual([
      { type: 'cancel', timer: 'expiry' },
      {
        type: 'send',
        to: allNodes(5),
        command: { operation: 'release', attempt: 0, round: 0, token: 'token-0', ttlMs: 0, counter: 0 },
      },
      { type: 'arm', timer: 'release', at: ms(550) },
    ]);
  });

  it('goes only to the nodes that granted under the policy that says so', () => {
    const lock = heldLock({ deviations: ['releases-granted'] })
      .yes(3)
      .release();
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [0, 1, 2, 3] }]);
    expect(lock.yes(0, 1).phase).toBe('releasing');
    expect(lock.yes(2).phase).toBe('released');
  });

  it('has no time-out where nodes have none', () => {
    const lock = heldLock({ settings: { nodeTimeoutUs: null } }).release();
    expect(lock.armed.size).toBe(0);
    expect(lock.yes(0, 1, 2).effects).toEqual([expect.objectContaining({ type: 'report' })]);
  });

  it('is over for the owner when a quorum is free of the key: that is when others can get in', () => {
    const lock = heldLock().at(500).release().at(502).yes(0, 1);
    expect(lock.reported).toEqual([]);
    lock.no(4);
    expect(lock.effects).toEqual([
      { type: 'cancel', timer: 'release' },
      {
        type: 'report',
        outcome: { type: 'released', votes: { granted: 0b11, refused: 0b10000, failed: 0, quorum: 3 }, enough: true },
      },
    ]);
    expect(lock.phase).toBe('released');
  });

  it('is over without a quorum when everybody has answered', () => {
    const lock = heldLock().release().yes(0, 1).error(2, 3);
    expect(lock.phase).toBe('releasing');
    lock.error(4);
    expect(lock.outcome).toEqual({
      type: 'released',
      votes: { granted: 0b11, refused: 0, failed: 0b11100, quorum: 3 },
      enough: true,
    });
  });

  it('is over by its time-out, with the silent nodes among the failed', () => {
    const lock = heldLock().at(500).release().yes(0).no(1).at(550).fire('release');
    expect(lock.outcome).toEqual({
      type: 'released',
      votes: { granted: 0b1, refused: 0b10, failed: 0b11100, quorum: 3 },
      enough: true,
    });
    expect(lock.phase).toBe('released');
  });

  it('is reported once, whatever answers and timers come after', () => {
    const lock = heldLock().release().yes(0, 1, 2).yes(3, 4).fire('release').release();
    expect(lock.effects).toEqual([]);
    expect(lock.outcomes.filter((outcome) => outcome.type === 'released')).toHaveLength(1);
    expect(lock.state).toMatchObject({ phase: 'released', release: { votes: { yes: 0b11111 } } });
  });

  it('counts each node once: a deletion stands when a duplicate finds nothing', () => {
    const lock = heldLock().release().yes(0, 0, 0).no(0).error(0);
    expect(lock.state).toMatchObject({ phase: 'releasing', release: { votes: { yes: 1, no: 0, failed: 0 } } });
    lock.error(1).no(1).no(2).error(2);
    expect(lock.state).toMatchObject({ release: { votes: { no: 0b10, failed: 0b100 } } });
    lock.error(3).yes(3).no(4).yes(4);
    expect(lock.state).toMatchObject({
      phase: 'released',
      release: { votes: { yes: 0b11001, no: 0b10, failed: 0b100 } },
    });
  });

  it('works after the loss, when keys may still be there', () => {
    const lock = heldLock().at(9_898).fire('expiry').release();
    expect(lock.effects.map((effect) => effect.type)).toEqual(['send', 'arm']);
    expect(lock.no(0, 1, 2).outcome).toMatchObject({ type: 'released' });
  });

  it('refuses the extension under way, whose answers then count for nothing', () => {
    const lock = heldLock().at(100).extend().yes(0, 1);
    const extension = lock.newest();
    lock.release();
    expect(lock.effects.slice(0, 2)).toEqual([
      { type: 'cancel', timer: 'extension' },
      {
        type: 'report',
        outcome: {
          type: 'not-extended',
          reason: 'not-held',
          votes: { granted: 0b11, refused: 0, failed: 0, quorum: 3 },
        },
      },
    ]);
    expect(lock.answer(extension, 'yes', 2, 3).effects).toEqual([]);
    expect(lock.fire('extension').effects).toEqual([]);
    expect(lock.phase).toBe('releasing');
  });

  it('releases the token of the attempt that got the lock', () => {
    const lock = new TestLock().acquire().no(0, 1, 2).at(200).fire('retry').yes(0, 1, 2).release();
    expect(lock.newest()).toMatchObject({ operation: 'release', attempt: 1, token: 'token-1' });
  });

  it('is not confused by the answers to the clean-up of an earlier attempt', () => {
    const lock = new TestLock().acquire().no(0, 1, 2);
    const cleanUp = lock.newest('release');
    lock.at(200).fire('retry').yes(0, 1, 2).release().answer(cleanUp, 'yes', 0, 1, 2, 3, 4);
    expect(lock.phase).toBe('releasing');
    expect(lock.state.release.votes.yes).toBe(0);
  });
});

describe('a SET that is still on its way at the release', () => {
  it('is released again when it is granted after its release found nothing', () => {
    const lock = heldLock();
    const set = lock.newest();
    lock.release().no(3).answer(set, 'yes', 3);
    expect(lock.sent).toEqual([{ operation: 'release', to: [3], attempt: 0, round: 0 }]);
    expect(lock.state.release.votes.no).toBe(0);
  });

  it('does not count as free until the second release has been answered', () => {
    const lock = heldLock();
    const set = lock.newest();
    lock.release();
    const release = lock.newest();
    lock.answer(set, 'yes', 3).answer(release, 'no', 3).answer(release, 'yes', 0, 1);
    expect(lock.phase).toBe('releasing');
    lock.answer(lock.newest(), 'yes', 3);
    expect(lock.outcome).toMatchObject({ type: 'released', votes: { granted: 0b1011, refused: 0 } });
  });

  it('needs no second release when the first deleted it', () => {
    const lock = heldLock();
    const set = lock.newest();
    lock.release().yes(3).answer(set, 'yes', 3);
    expect(lock.sent).toEqual([]);
    expect(lock.state).toMatchObject({ release: { lateGrants: 0, votes: { yes: 0b1000 } } });
  });

  it('is released behind the back of an owner who was told already', () => {
    const lock = heldLock();
    const set = lock.newest();
    lock.at(500).release().yes(0, 1, 2).at(550).fire('release').no(3).answer(set, 'yes', 3);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [3] }]);
    expect([lock.phase, lock.reported]).toEqual(['released', []]);
  });

  it('is released when its release timed out', () => {
    const lock = heldLock();
    const set = lock.newest();
    lock.at(500).release().at(550).fire('release').answer(set, 'yes', 4);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [4] }]);
  });

  it('stays where the policy releases only what was granted', () => {
    const lock = heldLock({ deviations: ['releases-granted'] });
    const set = lock.newest();
    lock.release().no(0, 1, 2).answer(set, 'yes', 3);
    expect(lock.sent).toEqual([]);
  });
});
