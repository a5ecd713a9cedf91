import { describe, expect, it } from 'vitest';
import type { Habits } from '../deviations/index.js';
import type { Fault } from '../scenarios/index.js';
import { lock, story, unreached } from './testing/schedule.js';

const ALL: readonly Habits['clock'][] = ['boot', 'monotonic', 'wall'];

/** When c1, who asks at 0 and whose claim ends at 9898 ms if nothing happens, is told of that end; by the clock it reads. */
function ends(fault: Fault): Record<string, number> {
  const told = (clock: Habits['clock']): number =>
    Number.parseInt(story({ policy: { habits: { clock } }, faults: [fault] }, 'expired')[0] ?? '', 10);
  return Object.fromEntries(ALL.map((clock) => [clock, told(clock)]));
}

describe('the clocks of a client', () => {
  it('are set by nobody but the wall clock', () => {
    const step: Fault = { kind: 'clock-step', process: 'c1', atUs: 5_000, byUs: -106_000 };
    expect(ends(step)).toEqual({ boot: 9_898_000, monotonic: 9_898_000, wall: 10_004_000 });
  });

  it('are slewed together', () => {
    const slew: Fault = { kind: 'clock-drift', process: 'c1', atUs: 0, ratePpm: -500 };
    expect(new Set(Object.values(ends(slew)))).toEqual(new Set([Math.ceil(9_898_000 / 0.9995)]));
  });

  it('go on through a pause', () => {
    const pause: Fault = { kind: 'pause', process: 'c1', atUs: 5_000, forUs: 20_000_000 };
    expect(ends(pause)).toEqual({ boot: 20_005_000, monotonic: 20_005_000, wall: 20_005_000 });
  });

  it('go on through a suspend, but for the monotonic one, which takes it for nothing', () => {
    const sleep: Fault = { kind: 'suspend', process: 'c1', atUs: 5_000, forUs: 20_000_000 };
    expect(ends(sleep)).toEqual({ boot: 20_005_000, monotonic: 29_898_000, wall: 20_005_000 });
  });

  it('all stand still while a virtual machine is paused', () => {
    const paused: Fault = { kind: 'suspend', process: 'c1', atUs: 5_000, forUs: 20_000_000, stops: 'all' };
    expect(ends(paused)).toEqual({ boot: 29_898_000, monotonic: 29_898_000, wall: 29_898_000 });
  });

  it('stand still between the requests and the answers too, which then look fresh', () => {
    const faults: Fault[] = [{ kind: 'suspend', process: 'c1', atUs: 1_500, forUs: 20_000_000 }];
    const outcome = (clock: Habits['clock']): string[] =>
      story({ policy: { settings: { tries: 1 }, habits: { clock } }, faults }, 'claim', 'acquire-failed');
    expect(outcome('monotonic')).toEqual(['20001500 c1 claim']);
    expect(outcome('boot')).toEqual(['20001500 c1 acquire-failed']);
  });
});

describe('the clock of a node', () => {
  const gone = (fault: Fault): string[] =>
    story({ faults: [fault], fates: unreached('c1', 'n1') }, 'key-gone').filter((it) => it.includes('n0'));

  it('is a wall clock: it is right after a suspend, and can be set', () => {
    expect(gone({ kind: 'suspend', process: 'n0', atUs: 5_000, forUs: 2_000_000 })).toEqual(['10002000 n0 key-gone']);
    expect(gone({ kind: 'clock-step', process: 'n0', atUs: 5_000, byUs: -1_000 })).toEqual(['10003000 n0 key-gone']);
  });

  it('stops with its virtual machine', () => {
    const paused: Fault = { kind: 'suspend', process: 'n0', atUs: 5_000, forUs: 2_000_000, stops: 'all' };
    expect(gone(paused)).toEqual(['12002000 n0 key-gone']);
  });

  it('of a node that is suspended answers nobody', () => {
    const faults: Fault[] = [{ kind: 'suspend', process: 'n0', atUs: 500, forUs: 2_000 }];
    expect(story({ faults }, 'execute').filter((it) => it.includes('n0'))).toEqual(['2500 n0 execute']);
    expect(story({ locks: [[lock(0)]], faults }, 'claim')).toEqual(['2000 c1 claim']);
  });
});
