import { describe, expect, it } from 'vitest';
import type { Fault, LockPlan } from '../scenarios/index.js';
import { lock, type Parts, story, trace } from './testing/schedule.js';

const ONE_NODE = { nodes: 1 };
const step = (atUs: number, byUs: number): Fault => ({ kind: 'clock-step', process: 'c1', atUs, byUs });

/** The one event of this kind. */
function when(kind: 'release-call' | 'expired' | 'claim', parts: Parts): string[] {
  return story({ cluster: ONE_NODE, untilUs: 60_000_000, ...parts }, kind);
}

it('is dead for good: a clock that goes on changing wakes none of its timers', () => {
  const parts: Parts = {
    policy: { habits: { clock: 'wall' } },
    locks: [[lock(0, { holdUs: 8_000 })], [lock(40_000_000, { holdUs: 8_000 })]],
    faults: [{ kind: 'client-crash', client: 'c1', atUs: 5_000 }, step(20_000_000, 1_000), step(40_005_000, 1_000)],
  };
  expect(when('release-call', parts)).toEqual(['40010000 c2 release-call']);
});

describe('what a client measures', () => {
  const WALL = { habits: { clock: 'wall' } } as const;
  const held: Parts = { policy: WALL, locks: [[lock(0, { holdUs: 8_000 })]] };

  it('is on its own clock', () => {
    const clocks = (ratePpm: number): Parts => ({
      cluster: { ...ONE_NODE, clocks: [{ process: 'c1', offsetUs: -77, ratePpm }] },
    });
    expect(when('release-call', { ...held, ...clocks(0) })).toEqual(['10000 c1 release-call']);
    expect(when('release-call', { ...held, ...clocks(-500_000) })).toEqual(['18000 c1 release-call']);
    expect(when('release-call', { ...held, ...clocks(500_000) })).toEqual(['7334 c1 release-call']);
  });

  it('jumps with it, both ways', () => {
    expect(when('release-call', { ...held, faults: [step(5_000, 1_000)] })).toEqual(['9000 c1 release-call']);
    expect(when('release-call', { ...held, faults: [step(5_000, 9_000)] })).toEqual(['5000 c1 release-call']);
    expect(when('release-call', { ...held, faults: [step(5_000, -1_000)] })).toEqual(['11000 c1 release-call']);
  });

  it('never fires early, nor twice, whatever its clock does', () => {
    const faults = [step(5_000, 4_000), step(5_500, -4_000), step(9_999, -1), step(10_000, 5)];
    expect(when('release-call', { ...held, faults })).toEqual(['10000 c1 release-call']);
  });

  it('includes the end of its claim', () => {
    expect(when('expired', {})).toEqual(['9898000 c1 expired']);
    expect(when('expired', { policy: WALL, faults: [step(5_000, -105_000)] })).toEqual(['10003000 c1 expired']);
    expect(when('expired', { policy: WALL, faults: [step(5_000, 20_000_000)] })).toEqual(['5000 c1 expired']);
  });
});

describe('an attempt', () => {
  it('that fails is followed by the next after a pause, at the place of its range that the plan says', () => {
    const faults: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 0, restartAfterUs: null }];
    const locks = [[lock(0, { jitterPpm: [0, 999_999] })]];
    const sends = story({ cluster: ONE_NODE, policy: { settings: { tries: 4 } }, locks, faults }, 'dropped').map(
      parseFloat,
    );
    // Time-out 50 ms, then 100, 299.999 and 200 ms; each failure sends a release too.
    expect(sends).toEqual([1_000, 51_000, 151_000, 201_000, 500_999, 550_999, 750_999, 800_999]);
  });

  it('has a token of its own', () => {
    const faults: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 0, restartAfterUs: null }];
    const tokens = trace({ cluster: ONE_NODE, policy: { settings: { tries: 3 } }, faults })
      .filter(({ kind, detail }) => kind === 'send' && detail.operation === 'acquire')
      .map(({ detail }) => detail.token);
    expect(tokens).toEqual([1, 2, 3]);
  });
});

describe('work under a lock', () => {
  const write = (checkAfterUs: number, guardUs: number | null, sendAfterUs: number): Partial<LockPlan> => ({
    writes: [{ checkAfterUs, guardUs, sendAfterUs, delayUs: 500 }],
  });
  const written = (fields: Partial<LockPlan>, faults: Fault[] = []): string[] =>
    story({ cluster: ONE_NODE, locks: [[lock(0, fields)]], faults }, 'write-skipped', 'write-sent', 'write-arrived');

  it('is checked, sent and arrives', () => {
    expect(written(write(1_000, 0, 3_000))).toEqual(['5000 c1 write-sent', '5500 c1 write-arrived']);
  });

  it('needs as much validity as its guard, and some in any case', () => {
    expect(written(write(9_895_000, 1_000, 9_895_000))).toHaveLength(2);
    expect(written(write(9_895_001, 1_000, 9_895_001))).toEqual(['9897001 c1 write-skipped']);
    expect(written(write(9_896_000, 0, 9_896_000))).toEqual(['9898000 c1 write-skipped']);
  });

  it('tells of a look at the lock that it is some time behind', () => {
    const looks = (fields: Partial<LockPlan>): unknown[] =>
      trace({ cluster: ONE_NODE, locks: [[lock(0, fields)]] })
        .filter(({ kind }) => kind === 'write-checked')
        .map(({ atUs, detail }) => [atUs, detail.leftUs]);
    expect(looks(write(9_895_000, 1_000, 9_896_000))).toEqual([[9_897_000, 1_000]]);
    expect(looks(write(9_895_000, 1_000, 9_895_000))).toEqual([]);
    expect(looks(write(9_895_001, 1_000, 9_896_000))).toEqual([]);
    expect(looks(write(9_895_000, null, 9_896_000))).toEqual([]);
  });

  it('is done without a look at the lock where there is no guard', () => {
    expect(written(write(20_000_000, null, 20_000_000))).toHaveLength(2);
  });

  it('waits while its client is frozen after the check', () => {
    const faults: Fault[] = [{ kind: 'pause', process: 'c1', atUs: 4_000, forUs: 20_000_000 }];
    expect(written(write(1_000, 0, 3_000), faults)).toEqual(['20004000 c1 write-sent', '20004500 c1 write-arrived']);
  });

  it('is sent so long after the claim, however late the check was', () => {
    const pause = (forUs: number): Fault[] => [{ kind: 'pause', process: 'c1', atUs: 2_500, forUs }];
    const fields = write(1_000, 0, 8_000);
    // The check is due at 3 ms and the sending at 10 ms.
    expect(written(fields, pause(4_000))).toEqual(['10000 c1 write-sent', '10500 c1 write-arrived']);
    expect(written(fields, pause(7_499))).toEqual(['10000 c1 write-sent', '10500 c1 write-arrived']);
    // Never before the check.
    expect(written(fields, pause(20_000))).toEqual(['22500 c1 write-sent', '23000 c1 write-arrived']);
  });

  it('extends when its plan says, and gets the time from the call on', () => {
    const locks = [[lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] })]];
    expect(when('expired', { locks })).toEqual(['14900000 c1 expired']);
  });
});

describe('several locks of one client', () => {
  it('run beside each other', () => {
    const other = lock(0, { resources: ['b'], holdUs: 1_000 });
    expect(story({ cluster: ONE_NODE, locks: [[lock(0), other]], untilUs: 9_000 }, 'claim', 'release-call')).toEqual([
      '2000 c1 claim',
      '2000 c1 claim',
      '3000 c1 release-call',
    ]);
  });
});

describe('a client that dies', () => {
  const died = (restartAfterUs: number, ...locks: readonly LockPlan[]): Parts => ({
    cluster: ONE_NODE,
    policy: { settings: { tries: 2 } },
    locks: [locks],
    faults: [{ kind: 'client-crash', client: 'c1', atUs: 5_000, restartAfterUs }],
  });
  const told = (parts: Parts): string[] =>
    story(parts, 'claim', 'acquire-failed', 'release-call', 'expired', 'client-crash', 'restart');

  it('and is started again knows nothing of its lock, and goes on with what it has to do', () => {
    const parts = died(1_000, lock(0, { holdUs: 8_000 }), lock(15_000_000, { holdUs: 8_000 }));
    expect(told(parts)).toEqual([
      '2000 c1 claim',
      '5000 c1 client-crash',
      '6000 c1 restart',
      '15002000 c1 claim',
      '15010000 c1 release-call',
    ]);
  });

  it('does late what it missed, and is kept out by the keys of its dead self', () => {
    const parts = died(40_000, lock(0), lock(20_000));
    expect(told(parts)).toEqual([
      '2000 c1 claim',
      '5000 c1 client-crash',
      '45000 c1 restart',
      '249000 c1 acquire-failed',
    ]);
  });

  it('hears no answer to what the dead one asked', () => {
    const parts: Parts = {
      ...died(0, lock(0), lock(20_000_000)),
      faults: [{ kind: 'client-crash', client: 'c1', atUs: 1_500, restartAfterUs: 0 }],
    };
    expect(told(parts)).toEqual([
      '1500 c1 client-crash',
      '1500 c1 restart',
      '20002000 c1 claim',
      '29898000 c1 expired',
    ]);
  });

  it('while it is frozen is not frozen any more, and asks once', () => {
    const frozen: Fault = { kind: 'pause', process: 'c1', atUs: 500, forUs: 20_000 };
    const crash: Fault = { kind: 'client-crash', client: 'c1', atUs: 5_000, restartAfterUs: 3_000 };
    const parts: Parts = { cluster: ONE_NODE, locks: [[lock(1_000)]], faults: [frozen, crash] };
    expect(told(parts)).toEqual(['5000 c1 client-crash', '8000 c1 restart', '10000 c1 claim', '9906000 c1 expired']);
  });
});

describe('a client that was frozen beyond its time-out', () => {
  const outcome = (first?: 'timers'): string[] => {
    const pause: Fault = { kind: 'pause', process: 'c1', atUs: 500, forUs: 100_000, ...(first && { first }) };
    return story({ cluster: ONE_NODE, policy: { settings: { tries: 1 } }, faults: [pause] }, 'claim', 'acquire-failed');
  };

  it('finds its answers first, or its time-out, as its event loop goes', () => {
    expect(outcome()).toEqual(['100500 c1 claim']);
    expect(outcome('timers')).toEqual(['100500 c1 acquire-failed']);
  });
});
