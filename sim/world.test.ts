import { describe, expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import type { Adversary } from './adversary.js';
import { Observer } from './observer.js';
import { ScriptedAdversary } from './scripted.js';
import { setupOf, simulate } from './simulate.js';
import { lock, type Parts, schedule, story, trace } from './testing/schedule.js';
import { World } from './world.js';

const ONE_NODE = { nodes: 1 };

describe('at one instant', () => {
  it('come faults before, deliveries, calls, timers, faults after', () => {
    const parts: Parts = {
      cluster: ONE_NODE,
      // c1 claims at 2 ms and releases 8 ms later; the SET of c3 arrives and c2 calls at the same time.
      locks: [[lock(0, { holdUs: 8_000 })], [lock(10_000)], [lock(9_000)]],
      faults: [
        { kind: 'clock-drift', process: 'n0', atUs: 10_000, edge: 'after', ratePpm: 1 },
        { kind: 'clock-step', process: 'n0', atUs: 10_000, byUs: 1 },
      ],
      untilUs: 10_000,
    };
    const kinds = ['clock-step', 'execute', 'call', 'release-call', 'clock-drift'] as const;
    expect(story(parts, ...kinds).slice(-5)).toEqual([
      '10000 n0 clock-step',
      '10000 n0 execute',
      '10000 c2 call',
      '10000 c1 release-call',
      '10000 n0 clock-drift',
    ]);
  });

  it('faults strike in the order of the schedule, and clients call in theirs', () => {
    const faults = (['n2', 'n0', 'n1'] as const).map(
      (process): Fault => ({ kind: 'pause', process, atUs: 5, forUs: 1 }),
    );
    expect(story({ faults, locks: [[lock(7), lock(7)], [lock(7)]] }, 'pause', 'call')).toEqual([
      '5 n2 pause',
      '5 n0 pause',
      '5 n1 pause',
      '7 c1 call',
      '7 c1 call',
      '7 c2 call',
    ]);
  });

  it('a node restarts right after its crash, before the next fault, on the same side of the deliveries', () => {
    const crash = { kind: 'crash', node: 'n0', restartAfterUs: 0 } as const;
    const parts = (edge: 'before' | 'after'): Parts => ({
      cluster: ONE_NODE,
      faults: [
        { ...crash, atUs: 1_000, edge },
        { kind: 'clock-step', process: 'n0', atUs: 1_000, byUs: 1, edge },
      ],
    });
    const kinds = ['crash', 'restart', 'execute', 'clock-step'] as const;
    const faults = ['1000 n0 crash', '1000 n0 restart', '1000 n0 clock-step'];
    expect(story(parts('before'), ...kinds)).toEqual([...faults, '1000 n0 execute']);
    expect(story(parts('after'), ...kinds)).toEqual(['1000 n0 execute', ...faults]);
  });

  it('a restart that is due comes before the deliveries, whatever side its crash was on', () => {
    const faults: Fault[] = [{ kind: 'crash', node: 'n0', atUs: 400, edge: 'after', restartAfterUs: 600 }];
    expect(story({ cluster: ONE_NODE, faults }, 'restart', 'execute', 'dropped')).toEqual([
      '1000 n0 restart',
      '1000 n0 execute',
    ]);
  });

  it('a key that is due to expire is gone for the command that arrives', () => {
    const parts: Parts = {
      cluster: ONE_NODE,
      policy: { settings: { tries: 1 } },
      locks: [[lock(0)], [lock(11_000_000 - 999_000)]],
    };
    expect(story(parts, 'claim', 'acquire-failed')).toEqual(['2000 c1 claim', '10003000 c2 claim']);
    const early: Parts = { ...parts, locks: [[lock(0)], [lock(10_000_999)]] };
    expect(story(early, 'claim', 'acquire-failed')).toEqual(['2000 c1 claim', '10002999 c2 acquire-failed']);
  });
});

describe('a run', () => {
  it('ends at the end of its schedule, what happens in that instant included', () => {
    expect(story({ untilUs: 2_000 }, 'claim')).toEqual(['2000 c1 claim']);
    expect(story({ untilUs: 1_999 }, 'claim')).toEqual([]);
    expect(simulate(schedule({ untilUs: 1_999 })).endUs).toBe(1_999);
  });

  it('has the same hash each time, whether its trace is kept or not', () => {
    const plan = schedule({ locks: [[lock(0, { holdUs: 5_000 })], [lock(10)]] });
    const { hash, events, steps } = simulate(plan);
    expect(simulate(plan)).toMatchObject({ hash, events, steps, trace: [] });
    expect(simulate(plan, { trace: true })).toMatchObject({ hash, events, steps });
  });

  it('has another hash where anything differs by a microsecond', () => {
    const hashes = [
      {},
      { locks: [[lock(1)]] },
      { cluster: { delayUs: 1_001 } },
      { cluster: { clocks: [{ process: 'n0', offsetUs: 0, ratePpm: 500 }] } },
      { faults: [{ kind: 'clock-step', process: 'n0', atUs: 1, byUs: 1 }] },
      { faults: [{ kind: 'clock-step', process: 'n0', atUs: 1, byUs: 2 }] },
    ].map((parts) => simulate(schedule(parts as Parts)).hash);
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it('says of each event what led to it', () => {
    const events = trace({ cluster: ONE_NODE, untilUs: 2_000 });
    const claim = events.findLast((event) => event.kind === 'claim');
    const chain: string[] = [];
    for (let event = claim; event !== undefined; event = events[event.cause]) chain.push(event.kind);
    expect(chain).toEqual(['claim', 'reply', 'send', 'execute', 'send', 'call']);
    expect(events.map((event) => event.seq)).toEqual(events.map((_, i) => i));
  });

  it('names clients as the schedule does, also where some are missing', () => {
    const plan = schedule({ locks: [[], [], [lock(0)]], untilUs: 3_000 });
    const { trace: events } = simulate({ ...plan, clients: plan.clients.slice(2) }, { trace: true });
    const named = events.flatMap(({ detail }) => ('client' in detail ? [detail.client] : []));
    expect(new Set(named)).toEqual(new Set(['c3']));
  });
});

describe('time that does not go on', () => {
  /** A client that tries again at once, over a network that takes no time, while somebody else has the lock. */
  function trying(policy: Parts['policy'], delayUs = 0): World {
    const locks = [[lock(0)], [lock(1_000)]];
    const plan = schedule({
      cluster: { delayUs },
      policy: { ...policy, settings: { tries: null, ...policy?.settings } },
      locks,
    });
    return new World(setupOf(plan), new ScriptedAdversary(plan), new Observer(), false);
  }

  it('ends the run, and is told of', () => {
    const world = trying({ deviations: ['no-pauses'] });
    world.run();
    expect([world.isStuck, world.now]).toEqual([true, 1_000]);
  });

  it('ends it as well where it creeps, by a microsecond for many events', () => {
    const world = trying({ deviations: ['no-pauses'] }, 1);
    world.run();
    expect(world.isStuck).toBe(true);
    expect(world.now).toBeLessThan(100_000);
  });

  it('is none where time goes on, however slowly', () => {
    const world = trying({ settings: { retryDelayUs: 1_000, retryJitterUs: 0 } });
    world.run();
    expect(world.events).toBeGreaterThan(100_000);
    expect([world.isStuck, world.now]).toEqual([false, 30_000_000]);
  });
});

describe('an adversary', () => {
  /** A world whose adversary, when a lock is claimed at 2 ms, wants a pause at `atUs`. */
  function worldWith(atUs: number, edge: 'before' | 'after'): World {
    const plan = schedule();
    const scripted = new ScriptedAdversary(plan);
    let left = 1;
    const adversary: Adversary = {
      nextLock: (client) => scripted.nextLock(client),
      jitterPpm: (client, number, attempt) => scripted.jitterPpm(client, number, attempt),
      fate: () => {},
      nextFault: (moment) =>
        moment === 'claim' && left-- > 0 ? { kind: 'pause', process: 'n0', atUs, forUs: 1, edge } : null,
    };
    return new World(setupOf(plan), adversary, new Observer(), true);
  }

  it('cannot change what has been handled, because that would not replay', () => {
    expect(() => worldWith(1_999, 'after').run()).toThrow('an adversary chose 1999 µs, but it is 2000 µs already');
    expect(() => worldWith(2_000, 'before').run()).toThrow(RangeError);
  });

  it('can still strike in the instant that it sees, after everything else in it', () => {
    const world = worldWith(2_000, 'after');
    world.run();
    expect(world.context.trace.events.filter((event) => event.kind === 'pause').map(({ atUs }) => atUs)).toEqual([
      2_000,
    ]);
  });
});
