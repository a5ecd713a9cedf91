import { describe, expect, it } from 'vitest';
import { initialState, type LockEvent, localTime, SOUND_POLICY, step, type Timer, type Token } from './index.js';
import { deepFreeze, heldLock, ms, TestLock } from './testing/lock.js';

const TIMERS: readonly Timer[] = ['attempt', 'extension', 'release', 'retry', 'expiry', 'auto-extend'];

/** One lock in every phase. */
function everyPhase(): TestLock[] {
  return [
    new TestLock(),
    new TestLock().acquire(),
    new TestLock().acquire().no(0, 1, 2),
    heldLock(),
    heldLock().at(9_898).fire('expiry'),
    heldLock().release(),
    heldLock().release().yes(0, 1, 2),
    new TestLock({ settings: { tries: 1 } }).acquire().no(0, 1, 2),
  ];
}

describe('the loss of a lock', () => {
  it('is told by the local timer at the claimed deadline, whatever the network does', () => {
    const lock = heldLock();
    expect(lock.armed).toEqual(new Map([['expiry', 9_898]]));
    lock.at(9_898).fire('expiry');
    expect(lock.effects).toEqual([{ type: 'report', outcome: { type: 'lost' } }]);
    expect(lock.phase).toBe('lost');
  });

  it('does not come early: a timer that does is armed again', () => {
    const lock = heldLock().at(9_897.999).fire('expiry');
    expect(lock.phase).toBe('held');
    expect(lock.effects).toEqual([{ type: 'arm', timer: 'expiry', at: ms(9_898) }]);
  });

  it('comes late where the timer is late', () => {
    expect(heldLock().at(20_000).fire('expiry').reported).toEqual(['lost']);
  });

  it('waits for the new deadline of a lock that was extended', () => {
    const lock = heldLock().at(5_000).extend().yes(0, 1, 2).at(9_898).fire('expiry');
    expect(lock.phase).toBe('held');
    expect(lock.armed.get('expiry')).toBe(14_898);
  });

  it('is told once, and never for a lock that was released', () => {
    const lost = heldLock().at(9_898).fire('expiry').fire('expiry');
    expect(lost.effects).toEqual([]);
    const released = heldLock().release().at(9_898).fire('expiry');
    expect([released.phase, released.effects]).toEqual(['releasing', []]);
  });
});

describe('events that make no sense in a phase', () => {
  it('an acquisition, unless idle', () => {
    for (const lock of everyPhase().slice(1)) {
      const before = lock.state;
      lock.acquire();
      expect([lock.state, lock.effects]).toEqual([before, []]);
    }
  });

  it('a release, unless there is something to release or to give up', () => {
    for (const lock of everyPhase()) {
      const before = lock.state;
      const changes = ['acquiring', 'waiting', 'held', 'lost'].includes(lock.phase);
      lock.release();
      if (!changes) expect([lock.state, lock.effects]).toEqual([before, []]);
      else expect(lock.state).not.toEqual(before);
    }
  });

  it.each([
    ['attempt', 'acquiring'],
    ['retry', 'waiting'],
    ['expiry', 'held'],
    ['release', 'releasing'],
    ['extension', 'none, unless an extension is under way'],
    ['auto-extend', 'held'],
  ] as const)('the timer %s, unless %s', (timer, phase) => {
    for (const lock of everyPhase()) {
      const before = lock.state;
      lock.at(9_000).fire(timer);
      if (lock.effects.length > 0) expect(before.phase).toBe(phase);
      else expect(lock.state).toEqual(before);
    }
  });

  it('a reply to a lock that has asked nothing', () => {
    const [command] = heldLock().commands;
    if (command === undefined) throw new Error('nothing was sent');
    for (const operation of ['acquire', 'extend', 'release'] as const) {
      const lock = new TestLock().answer({ ...command, operation }, 'yes', 0, 1, 2);
      expect([lock.state, lock.effects]).toEqual([initialState(), []]);
    }
  });
});

describe('a step', () => {
  const acquire: LockEvent = {
    type: 'acquire',
    now: localTime(0),
    nodes: 5,
    ttlMs: 10_000,
    chance: { token: 'a' as Token, jitterPpm: 0 },
  };

  it('leaves the state and the event that went in unchanged, in every phase and for every event', () => {
    for (const lock of everyPhase()) {
      const before = deepFreeze(lock.state);
      const copy = structuredClone(before);
      const events: LockEvent[] = [
        acquire,
        { type: 'extend', now: lock.now, ttlMs: 10_000 },
        { type: 'release', now: lock.now },
        ...TIMERS.map((timer): LockEvent => ({ type: 'timer', now: lock.now, timer, chance: acquire.chance })),
        ...lock.commands.map(
          (command): LockEvent => ({ type: 'reply', now: lock.now, node: 3, command, answer: 'yes', counter: 0 }),
        ),
      ];
      for (const event of events) {
        const { state } = step(lock.policy, before, deepFreeze(event));
        expect(state).not.toBe(before);
        expect(before).toEqual(copy);
      }
    }
  });

  it('gives the same result for the same input', () => {
    expect(step(SOUND_POLICY, initialState(), acquire)).toEqual(step(SOUND_POLICY, initialState(), acquire));
  });

  it('gives a state that survives its encoding as JSON', () => {
    for (const { state } of everyPhase()) expect(JSON.parse(JSON.stringify(state))).toEqual(state);
  });

  it('compares tokens and never computes with them: numbers do as well as texts', () => {
    const numbered: LockEvent = { ...acquire, chance: { token: 0 as Token, jitterPpm: 0 } };
    const [sending] = step(SOUND_POLICY, initialState(), numbered).effects;
    expect(sending).toMatchObject({ type: 'send', command: { token: 0 } });
  });
});
