import { describe, expect, it } from 'vitest';
import { allNodes, LONGEST_US, type NodeSet } from '../core/index.js';
import { heldLock, ms, TestLock } from '../core/testing/lock.js';
import { isEnough, Validity } from '../core/testing/validity.js';
import { lockPolicyOf, type PolicyChange, policyWith, REFERENCE } from './index.js';

/*
 * Choices on which known clients differ, each against what the reference does in the same place.
 */

const kinds = (lock: TestLock): string[] => lock.outcomes.map(({ type }) => type);

describe('when a round is decided', () => {
  const rows = [
    // yes, against, pending: decided with 3 of 5 needed
    [
      'three yeses, two to come',
      3,
      0,
      2,
      {
        sound: 'yes',
        'settles-early-on-yes': 'yes',
        'settles-early-on-no': 'open',
        'settles-with-all': 'open',
        'settles-by-quorum-only': 'yes',
      },
    ],
    [
      'three noes, two to come',
      0,
      3,
      2,
      {
        sound: 'no',
        'settles-early-on-yes': 'open',
        'settles-early-on-no': 'no',
        'settles-with-all': 'open',
        'settles-by-quorum-only': 'no',
      },
    ],
    [
      'three yeses, and nobody to come',
      3,
      2,
      0,
      {
        sound: 'yes',
        'settles-early-on-yes': 'yes',
        'settles-early-on-no': 'yes',
        'settles-with-all': 'yes',
        'settles-by-quorum-only': 'yes',
      },
    ],
    [
      'three noes, and nobody to come',
      2,
      3,
      0,
      {
        sound: 'no',
        'settles-early-on-yes': 'no',
        'settles-early-on-no': 'no',
        'settles-with-all': 'no',
        'settles-by-quorum-only': 'no',
      },
    ],
  ] as const;
  it.each(rows)('%s', (_, yes, against, pending, verdicts) => {
    const found = Object.keys(verdicts).map((name) => {
      const nodes = yes + against + pending;
      const votes = {
        yes: allNodes(yes),
        no: (allNodes(yes + against) & ~allNodes(yes)) as NodeSet,
        failed: allNodes(0),
      };
      const { rules } = lockPolicyOf(policyWith({ deviations: name === 'sound' ? [] : [name] }));
      return [name, rules.settle(votes, { nodes, needed: 3, wanted: 3 })];
    });
    expect(Object.fromEntries(found)).toEqual(verdicts);
  });

  it('holds for extensions as well', () => {
    const patient = heldLock({ settings: { nodeTimeoutUs: null } });
    expect(kinds(patient.extend().yes(0, 1, 2))).toContain('extended');
    const all = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all'] })
      .acquire()
      .yes(0, 1, 2, 3, 4)
      .extend();
    expect(kinds(all.yes(0, 1, 2, 3))).not.toContain('extended');
    expect(kinds(all.yes(4))).toContain('extended');
  });
});

describe('an error of one node', () => {
  it('forfeits a lock that was won, and leaves its keys', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'error-forfeits', 'release-awaits-all'] })
      .acquire()
      .yes(0, 1, 2, 3)
      .error(4);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'unreachable', attempts: 1 });
    expect(lock.effects.map(({ type }) => type)).toEqual(['cancel', 'report']);
    expect(lock.armed.size).toBe(0);
    const patient = new TestLock({
      settings: { nodeTimeoutUs: null },
      deviations: ['settles-with-all', 'error-forfeits', 'release-awaits-all'],
    });
    expect(patient.acquire().yes(0, 1, 2, 3).error(4).effects).toMatchObject([{ type: 'report' }]);
    expect(
      new TestLock({ deviations: ['settles-with-all', 'release-awaits-all'] }).acquire().yes(0, 1, 2, 3).error(4).phase,
    ).toBe('held');
    expect(
      new TestLock({ deviations: ['settles-with-all', 'error-forfeits', 'release-awaits-all'] })
        .acquire()
        .yes(0, 1, 2, 3)
        .no(4).phase,
    ).toBe('held');
  });

  it('is an ordinary failure where the lock was not won', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'error-forfeits', 'release-awaits-all'] })
      .acquire()
      .yes(0, 1)
      .no(2, 3)
      .error(4);
    expect(lock.phase).toBe('waiting');
    expect(lock.sent).toMatchObject([{ operation: 'release' }]);
  });
});

describe('validity', () => {
  it('below nothing is very much to an unsigned number, and nothing is nothing', () => {
    const policy = lockPolicyOf(policyWith({ deviations: ['validity-unsigned', 'deadline-counted-after-us:0'] }));
    const at = (now: number): Validity => new Validity(policy, ms(0), ms(now), 10_000_000);
    expect([9_898.001, 9_898, 9_897.999].map((now) => at(now).isEnough)).toEqual([true, false, true]);
    expect([9_900, 9_000, 9_898].map((now) => at(now).deadline)).toEqual([LONGEST_US, ms(9_898), ms(9_898)]);
    expect(isEnough(lockPolicyOf(REFERENCE), -1)).toBe(false);
  });

  it('is the whole TTL from the grant on to a client that knows nothing else', () => {
    const lock = new TestLock({ deviations: ['deadline-whole-ttl'] }).acquire().at(40).yes(0, 1, 2);
    expect(lock.state.hold.deadline).toBe(ms(10_040));
    expect(new TestLock().acquire().at(40).yes(0, 1, 2).state.hold.deadline).toBe(ms(9_898));
  });
});

describe('the end of an acquisition', () => {
  const tired = { settings: { tries: 1 }, deviations: ['pauses-after-last'] } as const;

  it('is told after one more pause, or at once', () => {
    const lock = new TestLock(tired).acquire().at(2).no(0, 1, 2);
    expect([lock.phase, lock.outcomes]).toEqual(['waiting', []]);
    lock.at(202).fire('retry');
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'contended', attempts: 1 });
    expect(lock.sent).toEqual([]);
    expect(new TestLock({ settings: { tries: 1 } }).acquire().at(2).no(0, 1, 2).phase).toBe('failed');
  });

  it('is where no attempt can begin in time any more', () => {
    const lock = new TestLock({ settings: { tries: null, acquireTimeoutUs: 250_000 } }).acquire();
    expect(lock.at(2).no(0, 1, 2).phase).toBe('waiting');
    lock.at(202).fire('retry').at(204).no(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'contended', attempts: 2 });
  });

  it('is not where one can begin at the very end of that time', () => {
    const until = (acquireTimeoutUs: number): TestLock =>
      new TestLock({ settings: { acquireTimeoutUs } }).acquire().at(2).no(0, 1, 2);
    expect(until(202_000).at(202).fire('retry').state.attempt.number).toBe(1);
    expect(until(201_999).phase).toBe('failed');
  });

  it('is a quorum that came too late, with nothing released', () => {
    const late = new TestLock({ settings: { nodeTimeoutUs: null }, deviations: ['lateness-quits'] })
      .acquire()
      .at(9_900)
      .yes(0, 1, 2);
    expect([late.outcome, late.sent]).toMatchObject([{ type: 'failed', reason: 'too-slow' }, []]);
    const contended = new TestLock({ deviations: ['lateness-quits'] }).acquire().no(0, 1, 2);
    expect([contended.phase, contended.sent.length]).toEqual(['waiting', 1]);
  });

  it('is an error where nobody said yes, with nothing released', () => {
    const lock = new TestLock({ deviations: ['errors-quit'] }).acquire().error(0).no(1, 2);
    expect([lock.outcome?.type, lock.sent]).toEqual(['failed', []]);
    expect(new TestLock({ deviations: ['errors-quit'] }).acquire().yes(3).error(0).no(1, 2).phase).toBe('waiting');
    expect(new TestLock({ deviations: ['errors-quit'] }).acquire().no(0, 1, 2).phase).toBe('waiting');
  });
});

describe('a clean-up', () => {
  it('leaves out who said no, where that is known', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'cleans-unless-refused', 'release-awaits-all'] })
      .acquire()
      .yes(0)
      .no(1, 2)
      .error(3, 4);
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [0, 3, 4] }]);
  });

  it('is waited for until nothing is open, and then the pause begins', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all', 'awaits-whole-clean-up'] })
      .acquire()
      .at(2)
      .yes(0)
      .no(1, 2, 3, 4);
    expect([lock.phase, lock.armed.get('retry')]).toEqual(['cleaning', undefined]);
    expect(lock.at(30).yes(0).no(1, 2, 3).phase).toBe('cleaning');
    lock.at(40).no(4);
    expect([lock.phase, lock.armed.get('retry')]).toEqual(['waiting', 240]);
  });

  it('is waited for no longer than the node time-out, and until a quorum is free where that is enough', () => {
    const slow = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all', 'awaits-whole-clean-up'] })
      .acquire()
      .at(2)
      .no(0, 1, 2, 3, 4);
    expect(slow.armed.get('release')).toBe(52);
    expect(slow.at(52).fire('release').phase).toBe('waiting');
    const early = new TestLock({ deviations: ['awaits-clean-up'] }).acquire().at(2).no(0, 1, 2);
    expect(early.no(0, 1).phase).toBe('cleaning');
    expect(early.no(2).phase).toBe('waiting');
    expect(early.armed.has('release')).toBe(false);
    const patient = new TestLock({ settings: { nodeTimeoutUs: null }, deviations: ['awaits-clean-up'] })
      .acquire()
      .no(0, 1, 2);
    expect(patient.effects.map(({ type }) => type)).toEqual(['send']);
    expect(patient.no(0, 1, 2).effects).toMatchObject([{ type: 'arm', timer: 'retry' }]);
  });

  it('can be cut short by who gives up', () => {
    const lock = new TestLock({ deviations: ['awaits-clean-up'] }).acquire().no(0, 1, 2).release();
    expect([lock.phase, lock.armed.size]).toEqual(['failed', 0]);
    expect(lock.no(0, 1, 2).outcomes).toHaveLength(1);
  });
});

describe('releases one after the other', () => {
  const slow = { deviations: ['releases-in-turn', 'release-awaits-all'] } as const;

  it('go on as each is answered, or has not been in time', () => {
    const lock = heldLock(slow).release();
    expect(lock.sent.map(({ to }) => to)).toEqual([[0]]);
    expect(lock.effects.filter(({ type }) => type === 'arm')).toEqual([{ type: 'arm', timer: 'release', at: ms(52) }]);
    expect(lock.yes(0).sent.map(({ to }) => to)).toEqual([[1]]);
    expect(lock.error(1).sent.map(({ to }) => to)).toEqual([[2]]);
    expect(
      lock
        .at(60)
        .fire('release')
        .sent.map(({ to }) => to),
    ).toEqual([[3]]);
    lock.yes(3);
    expect(lock.yes(4).outcome).toMatchObject({ type: 'released', enough: true });
  });

  it('have a time-out for each node, also where the next attempt does not wait for them', () => {
    const lock = new TestLock(slow).acquire().at(2).no(0, 1, 2);
    expect([lock.phase, lock.armed.get('release')]).toEqual(['waiting', 52]);
    expect(lock.at(10).no(0).armed.get('release')).toBe(60);
    const late = lock.at(60).fire('release');
    expect([late.sent.map(({ to }) => to), late.armed.get('release')]).toEqual([[[2]], 110]);
  });

  it('go on when a quorum is free already', () => {
    const lock = heldLock(slow).release().yes(0).yes(1).yes(2);
    expect([lock.phase, lock.sent.map(({ to }) => to)]).toEqual(['releasing', [[3]]]);
  });

  it('begin again at the call of release, whatever a failed extension has released', () => {
    const lock = heldLock({ deviations: [...slow.deviations, 'failure-releases'] })
      .extend()
      .error(2, 3, 4);
    expect(lock.sent.map(({ to }) => to)).toEqual([[0]]);
    lock.yes(0).yes(1).yes(2).yes(3).yes(4).release();
    expect(lock.sent.map(({ to }) => to)).toEqual([[0]]);
    expect(lock.yes(0).sent.map(({ to }) => to)).toEqual([[1]]);
  });

  it('of a failed attempt end with the next one, whose keys they would hit', () => {
    const lock = new TestLock(slow).acquire().at(2).no(0, 1, 2).at(202).fire('retry');
    expect(lock.sent).toMatchObject([{ operation: 'acquire', attempt: 1 }]);
    expect(lock.at(203).fire('release').effects).toEqual([]);
  });

  it('end at the first error where nobody catches it', () => {
    const lock = heldLock({ deviations: ['releases-until-error', 'release-awaits-all'] }).release();
    lock.yes(0).error(1);
    expect(lock.sent).toEqual([]);
    expect(lock.phase).toBe('released');
    const timed = heldLock({ deviations: ['releases-until-error', 'release-awaits-all'] })
      .release()
      .at(60)
      .fire('release');
    expect([timed.phase, timed.sent]).toEqual(['released', []]);
  });

  it('are the same for the clean-up of an attempt', () => {
    const lock = new TestLock({
      deviations: [...slow.deviations, 'awaits-whole-clean-up', 'settles-with-all'],
    })
      .acquire()
      .no(0, 1, 2, 3, 4);
    expect(lock.sent.map(({ to }) => to)).toEqual([[0]]);
    expect(lock.effects.map(({ type }) => type)).toEqual(['cancel', 'send', 'arm']);
    lock.no(0).no(1).no(2).no(3);
    expect(lock.phase).toBe('cleaning');
    expect(lock.no(4).phase).toBe('waiting');
  });
});

describe('what a release has to come to', () => {
  it('is nothing by default: gone keys and silent nodes end it as well', () => {
    expect(heldLock().release().no(0, 1, 2).outcome).toMatchObject({ type: 'released', enough: true });
  });

  it('is a quorum of deletions, else it is tried again after a pause', () => {
    const lock = heldLock({ settings: { releaseTries: 2 }, deviations: ['release-must-delete'] })
      .release()
      .at(10)
      .yes(0)
      .no(1, 2, 3);
    expect([lock.phase, lock.armed.get('release')]).toEqual(['releasing', 210]);
    expect(lock.yes(4).phase).toBe('releasing');
    expect(lock.at(210).fire('release').sent).toMatchObject([{ operation: 'release', to: [0, 1, 2, 3, 4] }]);
    expect(lock.no(0, 1, 2).outcome).toMatchObject({ type: 'released', enough: false });
    const again = heldLock({ settings: { releaseTries: 2 }, deviations: ['release-must-delete'] })
      .release()
      .yes(0)
      .no(1, 2, 3)
      .fire('release');
    expect(again.yes(1, 2).phase).toBe('releasing');
    const fine = heldLock({ deviations: ['release-must-delete'] })
      .release()
      .yes(0, 1, 2);
    expect(fine.outcome).toMatchObject({ type: 'released', enough: true });
    const last = heldLock({ deviations: ['release-must-delete'] })
      .release()
      .no(0, 1);
    expect(last.phase).toBe('releasing');
    expect(last.yes(2, 3, 4).outcome).toMatchObject({ type: 'released', enough: true });
  });

  it('has an answer of every node where the client waits for all', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all'] })
      .acquire()
      .yes(0, 1, 2, 3, 4)
      .release()
      .yes(0, 1, 2, 3);
    expect(lock.phase).toBe('releasing');
    expect(lock.yes(4).phase).toBe('released');
  });

  it('is not what nodes answered to the releases of a failed extension', () => {
    const lock = heldLock({ deviations: ['failure-releases'] })
      .extend()
      .error(2, 3, 4)
      .yes(0, 1, 2);
    lock.release();
    expect(lock.yes(0, 1).phase).toBe('releasing');
    expect(lock.yes(2).phase).toBe('released');
  });

  it('is a quorum free of the key', () => {
    const lock = heldLock({ deviations: ['release-must-free'] })
      .release()
      .no(0, 1)
      .yes(2);
    expect(lock.outcome).toMatchObject({ type: 'released', enough: true });
    expect(
      heldLock({ deviations: ['release-must-free'] })
        .release()
        .error(0, 1, 2).outcome,
    ).toMatchObject({ enough: false });
  });
});

describe('an extension', () => {
  it('that reads every answer as a yes is granted a lock of others', () => {
    const lock = heldLock({ deviations: ['refusal-extends'] })
      .extend()
      .no(0, 1)
      .error(2);
    expect(kinds(lock)).toEqual(['acquired']);
    expect(kinds(lock.no(3))).toEqual(['acquired', 'extended']);
    expect(kinds(heldLock().extend().no(0, 1, 2))).toEqual(['acquired', 'not-extended']);
  });

  it('is not begun after the deadline, but may be answered after it', () => {
    const change = { settings: { nodeTimeoutUs: null }, deviations: ['extends-if-begun-in-time'] } as const;
    expect(kinds(heldLock(change).at(9_900).extend())).toContain('not-extended');
    expect(kinds(heldLock(change).at(9_800).extend().at(9_900).yes(0, 1, 2))).toContain('extended');
    const lost = heldLock(change).at(9_890).extend().at(9_898).fire('expiry');
    expect([lost.reported, lost.state.extension.isOpen]).toEqual([['lost'], true]);
    expect(
      heldLock({ deviations: ['extends-late'] })
        .at(9_900)
        .extend().sent,
    ).toHaveLength(1);
  });

  it('that fails leaves the keys, or deletes them behind the back of the owner, or tells the owner so', () => {
    const failing = (...deviations: string[]): TestLock => heldLock({ deviations }).extend().error(2, 3, 4);
    expect([failing().phase, failing().sent]).toEqual(['held', []]);
    const behind = failing('failure-releases');
    expect([behind.phase, behind.sent.map(({ operation }) => operation)]).toEqual(['held', ['release']]);
    expect(behind.reported).not.toContain('lost');
    const told = failing('failure-gives-up');
    expect([told.phase, told.reported]).toEqual(['lost', ['not-extended', 'lost']]);
    expect(told.armed.has('expiry')).toBe(false);
  });

  it('that makes the owner give up stops its timers, where it has them', () => {
    const failing = ({ deviations = [], ...change }: PolicyChange): TestLock =>
      heldLock({ ...change, deviations: ['failure-gives-up', ...deviations] })
        .at(1_000)
        .extend()
        .error(2, 3, 4);
    const cancelled = (lock: TestLock): string[] =>
      lock.effects.flatMap((effect) => (effect.type === 'cancel' ? [effect.timer] : []));
    expect(cancelled(failing({}))).toEqual(['extension', 'expiry']);
    expect(cancelled(failing({ deviations: ['no-alarm'] }))).toEqual(['extension']);
    const auto = failing({ settings: { autoExtendAtUs: 3_000_000 } });
    expect(cancelled(auto)).toEqual(['extension', 'expiry', 'auto-extend']);
    expect(auto.armed.size).toBe(0);
  });

  it('that fails too late reports the loss, and leaves all timers as they are', () => {
    const lock = heldLock({
      settings: { autoExtendAtUs: 3_000_000 },
      deviations: ['no-alarm', 'loss-noticed-at-failure'],
    })
      .at(9_890)
      .extend();
    expect(lock.at(9_899).error(2, 3, 4).reported).toEqual(['not-extended', 'lost']);
    expect([...lock.armed.keys()]).toEqual(['auto-extend']);
  });

  it('that fails after the claim was over tells of the loss no second time', () => {
    const lock = heldLock({ deviations: ['extends-late', 'failure-gives-up'] })
      .at(9_890)
      .extend();
    expect(lock.at(9_898).fire('expiry').reported).toEqual(['lost']);
    expect(lock.at(9_899).error(2, 3, 4).reported).toEqual(['not-extended']);
  });
});

describe('extending by itself', () => {
  it('is due when a share of the TTL is left, or so much time, whichever comes first', () => {
    const due = (change: object): number | undefined => heldLock({ ...change }).armed.get('auto-extend');
    expect(due({ settings: { autoExtendAtPpm: 200_000 } })).toBe(9_898 - 2_000);
    expect(due({ settings: { autoExtendAtPpm: 200_000, autoExtendAtUs: 3_000_000 } })).toBe(9_898 - 3_000);
    expect(due({})).toBeUndefined();
  });

  it('is due to the microsecond, also where one of the two is nothing', () => {
    expect(heldLock({ settings: { autoExtendAtUs: 5 } }).armed.get('auto-extend')).toBe(9_897.995);
    // Of 100 ms, which leave 97, half a microsecond.
    expect(heldLock({ settings: { autoExtendAtPpm: 5 } }, 100).armed.get('auto-extend')).toBe(97);
  });

  it('is at once where less is left than that, or never', () => {
    const policy = { settings: { autoExtendAtUs: 500_000 } };
    expect(heldLock(policy, 400).armed.get('auto-extend')).toBe(2);
    expect(heldLock({ ...policy, deviations: ['no-late-auto-extension'] }, 400).armed.has('auto-extend')).toBe(false);
    expect(heldLock({ ...policy, deviations: ['no-late-auto-extension'] }, 4_000).armed.has('auto-extend')).toBe(true);
    // A claim until 988 ms that was granted at 2 ms.
    const due = (autoExtendAtUs: number): number | undefined =>
      heldLock({ settings: { autoExtendAtUs }, deviations: ['no-late-auto-extension'] }, 1_000).armed.get(
        'auto-extend',
      );
    expect([due(986_000), due(986_001)]).toEqual([2, undefined]);
  });
});
