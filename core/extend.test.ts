import { describe, expect, it } from 'vitest';
import { allNodes } from './index.js';
import { NO_ANSWERS } from './tally.js';
import { heldLock, ms, TestLock } from './testing/lock.js';

describe('an extension that heals', () => {
  const healing = { deviations: ['extension-heals'] };

  it('counts a node that had lost the key, and one that never had it', () => {
    const lock = heldLock(healing).at(5_000).extend(20_000).yes(3, 4, 0);
    expect(lock.outcome).toMatchObject({ type: 'extended', votes: { granted: 0b11001 } });
  });

  it('has a node released again whose yes comes behind its release, whatever that found', () => {
    for (const answer of ['yes', 'no'] as const) {
      const lock = heldLock(healing).at(5_000).extend(20_000).release()[answer](4);
      lock.answer(lock.newest('extend'), 'yes', 4);
      expect(lock.sent).toMatchObject([{ operation: 'release', to: [4] }]);
    }
    const lock = heldLock().at(5_000).extend(20_000).release().yes(4);
    lock.answer(lock.newest('extend'), 'yes', 4);
    expect(lock.sent).toEqual([]);
  });
});

describe('an extension', () => {
  it('asks every node, with the token of the lock and the TTL wanted', () => {
    const lock = heldLock().at(5_000).extend(20_000);
    expect(lock.effects).toEqual([
      {
        type: 'send',
        to: allNodes(5),
        command: { operation: 'extend', attempt: 0, round: 0, token: 'token-0', ttlMs: 20_000, counter: 0 },
      },
      { type: 'arm', timer: 'extension', at: ms(5_050) },
    ]);
    expect(lock.state).toMatchObject({
      phase: 'held',
      extension: { isOpen: true },
      hold: { extensions: 0, deadline: ms(9_898) },
    });
  });

  it('holds until the start of its round + TTL - D once a quorum agreed', () => {
    const lock = heldLock().at(5_000).extend(20_000).at(5_030).yes(0, 4);
    expect(lock.effects).toEqual([]);
    lock.yes(2);
    expect(lock.effects).toEqual([
      { type: 'cancel', timer: 'extension' },
      { type: 'arm', timer: 'expiry', at: ms(5_000 + 19_798) },
      {
        type: 'report',
        outcome: {
          type: 'extended',
          deadline: ms(24_798),
          votes: { granted: 0b10101, refused: 0, failed: 0, quorum: 3 },
        },
      },
    ]);
    expect(lock.state).toMatchObject({
      phase: 'held',
      extension: { isOpen: false },
      hold: { extensions: 1, deadline: ms(24_798) },
    });
  });

  it('counts from the answer of its quorum under the policy that says so', () => {
    const lock = heldLock({ deviations: ['extension-counts-from-reply'] })
      .at(5_000)
      .extend()
      .at(5_030)
      .yes(0, 1, 2);
    expect(lock.state.hold.deadline).toBe(ms(5_030 + 9_898));
  });

  it('has no time-out where nodes have none', () => {
    const lock = heldLock({ settings: { nodeTimeoutUs: null } }).extend();
    expect(lock.armed.has('extension')).toBe(false);
    expect(lock.yes(0, 1, 2).effects).not.toContainEqual({ type: 'cancel', timer: 'extension' });
  });

  it('may be asked for a shorter claim: the nodes keep theirs, the owner counts on less', () => {
    const lock = heldLock().at(100).extend(1_000).yes(0, 1, 2);
    expect(lock.state.hold.deadline).toBe(ms(100 + 988));
    expect(lock.armed.get('expiry')).toBe(1_088);
  });

  it('works for a lock that took several attempts', () => {
    const lock = new TestLock().acquire().no(0, 1, 2).at(200).fire('retry').yes(0, 1, 2).at(300).extend();
    expect(lock.newest()).toMatchObject({ operation: 'extend', attempt: 1, token: 'token-1' });
    expect(lock.yes(0, 1, 2).outcome).toMatchObject({ type: 'extended' });
  });
});

describe('the votes of an extension', () => {
  it('are those of its own round only', () => {
    const lock = heldLock().at(100).extend();
    const first = lock.newest();
    lock.yes(0, 1).no(2).at(150).fire('extension').at(200).extend();
    expect(lock.newest().round).toBe(1);
    expect(lock.state).toMatchObject({ extension: { votes: NO_ANSWERS } });
    lock.answer(first, 'yes', 2, 3, 4).yes(0, 1);
    expect(lock.state).toMatchObject({ extension: { isOpen: true, votes: { yes: 0b11 } }, hold: { extensions: 0 } });
    expect(lock.yes(2).outcome).toMatchObject({ type: 'extended', deadline: ms(200 + 9_898) });
  });

  it('need the quorum, or one fewer under the policy that says so', () => {
    expect(heldLock().extend().yes(0, 1).outcome).toMatchObject({ type: 'acquired' });
    expect(
      heldLock({ deviations: ['extension-votes:-1'] })
        .extend()
        .yes(0, 1).outcome,
    ).toMatchObject({ type: 'extended' });
    expect(
      heldLock({ deviations: ['extension-votes:1'] })
        .extend()
        .yes(0, 1, 2).outcome,
    ).toMatchObject({ type: 'acquired' });
  });

  it('count each node once, and its yes stands when a duplicate finds nothing', () => {
    const lock = heldLock().extend().yes(0, 0, 0).no(0).error(0);
    expect(lock.state).toMatchObject({ extension: { isOpen: true, votes: { yes: 1, no: 0, failed: 0 } } });
    lock.no(1).error(1).error(2).no(2);
    expect(lock.state).toMatchObject({ extension: { votes: { no: 0b100, failed: 0b10 } } });
    expect(lock.yes(3, 4).outcome).toMatchObject({ type: 'extended' });
  });

  it('replace those of the acquisition, whose late ones count no more', () => {
    const lock = heldLock();
    const set = lock.newest('acquire');
    lock.at(100).extend().yes(1, 2).no(0).error(3).yes(4);
    expect(lock.votes()).toEqual({ granted: [1, 2, 4], refused: [0], failed: [3] });
    lock.answer(set, 'yes', 3);
    expect(lock.votes()).toEqual({ granted: [1, 2, 4], refused: [0], failed: [3] });
  });

  it('leave those of the acquisition as they are when the round fails', () => {
    const lock = heldLock();
    const set = lock.newest('acquire');
    lock.at(100).extend().yes(3).no(0, 1, 2);
    const extension = lock.newest('extend');
    lock.answer(extension, 'yes', 4).answer(set, 'no', 4);
    expect(lock.votes()).toEqual({ granted: [0, 1, 2], refused: [4], failed: [] });
  });

  it('that come late still count towards the round that succeeded, even while the next is under way', () => {
    const lock = heldLock().at(100).extend().yes(0, 1, 2);
    const first = lock.newest('extend');
    lock.answer(first, 'no', 3);
    expect(lock.votes()).toEqual({ granted: [0, 1, 2], refused: [3], failed: [] });
    lock.at(200).extend().answer(first, 'yes', 4);
    expect(lock.votes().granted).toEqual([0, 1, 2, 4]);
    expect(lock.state).toMatchObject({ extension: { isOpen: true, votes: { yes: 0 } } });
  });

  it('that come late for a round that failed count for nothing', () => {
    const lock = heldLock().at(100).extend().yes(0, 1, 2).at(200).extend();
    const second = lock.newest('extend');
    lock.no(0, 1, 2).answer(second, 'yes', 3, 4);
    expect(lock.votes().granted).toEqual([0, 1, 2]);
  });

  it('that come after the release or for another attempt change nothing', () => {
    const lock = heldLock().at(100).extend().yes(0, 1, 2);
    const extension = lock.newest('extend');
    const foreign = lock.answer({ ...extension, attempt: 7 }, 'yes', 3).votes().granted;
    expect(foreign).toEqual([0, 1, 2]);
    expect(lock.release().answer(extension, 'yes', 4).votes().granted).toEqual([0, 1, 2]);
  });
});

describe('an extension without its quorum', () => {
  it('leaves the deadline as it was, and says that the lock is lost where nodes said so', () => {
    const lock = heldLock().at(100).extend().yes(0).no(1, 2);
    expect(lock.state.extension.isOpen).toBe(true);
    lock.no(3);
    expect(lock.effects).toEqual([
      { type: 'cancel', timer: 'extension' },
      {
        type: 'report',
        outcome: {
          type: 'not-extended',
          reason: 'lost',
          votes: { granted: 0b1, refused: 0b1110, failed: 0, quorum: 3 },
        },
      },
    ]);
    expect(lock.state).toMatchObject({
      phase: 'held',
      extension: { isOpen: false },
      hold: { extensions: 0, deadline: ms(9_898) },
    });
    expect(lock.armed.get('expiry')).toBe(9_898);
  });

  it('says that nodes are unreachable where too many of them gave no answer', () => {
    const lock = heldLock().extend().yes(0).no(1, 2).error(3);
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'unreachable' });
  });

  it('fails by its time-out, and counts the silent nodes', () => {
    const lock = heldLock().at(100).extend().yes(0, 1).at(150).fire('extension');
    expect(lock.outcome).toMatchObject({
      type: 'not-extended',
      reason: 'unreachable',
      votes: { granted: 0b11, failed: 0b11100 },
    });
    expect(lock.fire('extension').effects).toEqual([]);
  });

  it('may be tried again, which does not count against the limit', () => {
    const lock = heldLock({ settings: { maxExtensions: 1 } })
      .at(100)
      .extend()
      .no(0, 1, 2)
      .at(200)
      .extend()
      .yes(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'extended' });
  });
});

describe('an extension that comes too late', () => {
  it('is refused when its quorum answered at the old deadline, in time 1 µs before', () => {
    const late = heldLock().at(9_890).extend().at(9_898).yes(0, 1, 2);
    expect(late.outcome).toMatchObject({ type: 'not-extended', reason: 'too-late' });
    expect(late.state).toMatchObject({ extension: { isOpen: false }, hold: { extensions: 0, deadline: ms(9_898) } });
    const inTime = heldLock().at(9_890).extend().at(9_897.999).yes(0, 1, 2);
    expect(inTime.outcome).toMatchObject({ type: 'extended' });
  });

  it('is refused without asking anybody at the deadline, though the expiry timer is late', () => {
    const lock = heldLock().at(9_898).extend();
    expect(lock.sent).toEqual([]);
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'too-late' });
    expect(heldLock().at(9_897.999).extend().sent).toHaveLength(1);
  });

  it('is refused after the loss, with that reason', () => {
    const lock = heldLock().at(9_898).fire('expiry').extend();
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'too-late' });
    expect(lock.phase).toBe('lost');
  });

  it('ends with the loss of the lock when it is still under way then', () => {
    const lock = heldLock().at(9_890).extend().yes(0, 1).at(9_898).fire('expiry');
    expect(lock.effects).toEqual([
      { type: 'cancel', timer: 'extension' },
      {
        type: 'report',
        outcome: {
          type: 'not-extended',
          reason: 'too-late',
          votes: { granted: 0b11, refused: 0, failed: 0, quorum: 3 },
        },
      },
      { type: 'report', outcome: { type: 'lost' } },
    ]);
    expect(lock.yes(2).phase).toBe('lost');
  });

  it('is refused when too little of the new claim is left, and the old one stands', () => {
    const lock = heldLock().at(100).extend(100).at(197).yes(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'too-late' });
    expect(lock.state.hold.deadline).toBe(ms(9_898));
    expect(heldLock().at(100).extend(100).at(196).yes(0, 1, 2).outcome).toMatchObject({ type: 'extended' });
    const demanding = heldLock({ settings: { minValidityUs: 1_001 } })
      .at(100)
      .extend(100)
      .at(196)
      .yes(0, 1, 2);
    expect(demanding.outcome).toMatchObject({ type: 'not-extended' });
  });
});

describe('the policy that lets an extension come after the old deadline', () => {
  const late = { deviations: ['extends-late'] } as const;

  it('takes a quorum that answered late', () => {
    const lock = heldLock(late).at(9_890).extend().at(9_899).yes(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'extended', deadline: ms(9_890 + 9_898) });
  });

  it('revives a lock that was lost meanwhile', () => {
    const lock = heldLock(late).at(9_890).extend().at(9_898).fire('expiry');
    expect(lock.reported).toEqual(['lost']);
    expect(lock.state).toMatchObject({ phase: 'lost', extension: { isOpen: true } });
    lock.at(9_899).yes(0, 1, 2);
    expect(lock.phase).toBe('held');
    expect(lock.armed.get('expiry')).toBe(9_890 + 9_898);
  });

  it('asks the nodes even after the loss, and keeps the lock lost when they refuse', () => {
    const lock = heldLock(late).at(9_898).fire('expiry').at(9_950).extend();
    expect(lock.sent).toMatchObject([{ operation: 'extend' }]);
    lock.no(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'lost' });
    expect(lock.phase).toBe('lost');
  });
});

describe('an extension that cannot even start', () => {
  it('is refused where no lock is held', () => {
    const acquiring = new TestLock().acquire().extend();
    const waiting = new TestLock().acquire().no(0, 1, 2).extend();
    const failed = new TestLock({ settings: { tries: 1 } }).acquire().no(0, 1, 2).extend();
    const releasing = heldLock().release().extend();
    for (const lock of [new TestLock().extend(), acquiring, waiting, failed, releasing]) {
      expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'not-held' });
      expect(lock.sent).toEqual([]);
    }
  });

  it('is refused while another is under way, which goes on', () => {
    const lock = heldLock().at(100).extend(20_000).yes(0).at(110).extend(30_000);
    expect(lock.outcome).toMatchObject({ type: 'not-extended', reason: 'in-progress' });
    expect(lock.sent).toEqual([]);
    expect(lock.yes(1, 2).outcome).toMatchObject({ type: 'extended', deadline: ms(100 + 19_798) });
  });

  it('is refused at the limit of extensions', () => {
    const lock = heldLock({ settings: { maxExtensions: 2 } });
    for (let done = 0; done < 2; done++) lock.extend().yes(0, 1, 2);
    expect(lock.state.hold.extensions).toBe(2);
    expect(lock.extend().outcome).toMatchObject({ type: 'not-extended', reason: 'limit' });
    expect(lock.sent).toEqual([]);
    expect(heldLock({ settings: { maxExtensions: 0 } }).extend().outcome).toMatchObject({ reason: 'limit' });
  });

  it('has no limit where the policy sets none', () => {
    const lock = heldLock({ settings: { maxExtensions: null } });
    for (let done = 0; done < 30; done++) lock.extend().yes(0, 1, 2);
    expect(lock.state.hold.extensions).toBe(30);
  });
});
