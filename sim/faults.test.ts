import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../scenarios/index.js';
import { lock, type Parts, story, trace } from './testing/schedule.js';

const ONE_NODE = { nodes: 1 };
const crash = (atUs: number, restartAfterUs: number | null): Fault => ({
  kind: 'crash',
  node: 'n0',
  atUs,
  restartAfterUs,
});
const pause = (process: string, atUs: number, forUs: number): Fault => ({ kind: 'pause', process, atUs, forUs });
const MESSAGES = ['execute', 'dropped', 'reply', 'claim'] as const;

describe('a node that is down', () => {
  it('drops what arrives, and answers again after its restart', () => {
    const parts: Parts = { cluster: ONE_NODE, locks: [[lock(0)], [lock(5_000)]], untilUs: 9_000 };
    const run = (faults: Fault[]): string[] => story({ ...parts, faults }, 'dropped', 'execute');
    expect(run([crash(500, 5_500)])).toEqual(['1000 n0 dropped', '6000 n0 execute']);
    expect(run([crash(500, 5_501)])).toEqual(['1000 n0 dropped', '6000 n0 dropped']);
    expect(run([crash(500, null)])).toEqual(['1000 n0 dropped', '6000 n0 dropped']);
  });

  it('answers what was on its way when it went down and came back', () => {
    expect(story({ cluster: ONE_NODE, faults: [crash(500, 100)], untilUs: 9_000 }, ...MESSAGES)).toEqual([
      '1000 n0 execute',
      '2000 c1 reply',
      '2000 c1 claim',
    ]);
  });

  it('cannot crash again, and comes back once', () => {
    const faults = [crash(100, 900), crash(500, 100), crash(2_000, 300)];
    expect(story({ cluster: ONE_NODE, faults, untilUs: 9_000 }, 'crash', 'restart')).toEqual([
      '100 n0 crash',
      '1000 n0 restart',
      '2000 n0 crash',
      '2300 n0 restart',
    ]);
  });

  it('does not restart if its replica took over meanwhile', () => {
    const faults: Fault[] = [crash(100, 900), { kind: 'failover', node: 'n0', atUs: 500 }, crash(600, 9_000)];
    const cluster = { nodes: 1, replicaLagUs: 100 };
    expect(story({ cluster, faults, untilUs: 9_000 }, 'crash', 'failover', 'restart')).toEqual([
      '100 n0 crash',
      '500 n0 failover',
      '600 n0 crash',
    ]);
  });
});

describe('a machine that is suspended', () => {
  const still = (process: string, atUs: number, forUs: number): Fault => ({
    kind: 'suspend',
    process,
    atUs,
    forUs,
    stops: 'all',
  });

  it('lets a client that is started on it wait until it goes on', () => {
    const restart: Fault = { kind: 'client-crash', client: 'c1', atUs: 0, restartAfterUs: 3_000 };
    const parts: Parts = { cluster: ONE_NODE, locks: [[lock(1_000)]], untilUs: 90_000 };
    const run = (...faults: Fault[]): string[] => story({ ...parts, faults }, 'restart', 'call', 'claim');
    expect(run(restart)).toEqual(['3000 c1 restart', '3000 c1 call', '5000 c1 claim']);
    expect(run(restart, still('c1', 2_000, 7_000))).toEqual(['3000 c1 restart', '9000 c1 call', '11000 c1 claim']);
    // It stood still before its process died, too.
    const died: Fault = { kind: 'client-crash', client: 'c1', atUs: 500, restartAfterUs: 2_500 };
    expect(run(died, still('c1', 200, 8_800))).toEqual(['3000 c1 restart', '9000 c1 call', '11000 c1 claim']);
    expect(run(restart, still('c1', 2_000, 1_000))).toEqual(['3000 c1 restart', '3000 c1 call', '5000 c1 claim']);
  });

  it('lets a node that is started on it wait, too', () => {
    const faults = [crash(500, 100), still('n0', 550, 4_450)];
    expect(story({ cluster: ONE_NODE, faults, untilUs: 9_000 }, ...MESSAGES)).toEqual([
      '5000 n0 execute',
      '6000 c1 reply',
      '6000 c1 claim',
    ]);
  });
});

describe('a frozen node', () => {
  it('answers when it wakes', () => {
    const faults = [pause('n0', 500, 10_000)];
    expect(story({ cluster: ONE_NODE, faults, untilUs: 20_000 }, ...MESSAGES).slice(0, 2)).toEqual([
      '10500 n0 execute',
      '11500 c1 reply',
    ]);
  });

  it('that crashes loses what had reached it', () => {
    const faults = [pause('n0', 500, 10_000), crash(2_000, 0)];
    expect(story({ cluster: ONE_NODE, faults, untilUs: 20_000 }, ...MESSAGES)).toEqual(['10500 n0 dropped']);
  });

  it('is replaced by a replica that is not frozen', () => {
    const faults: Fault[] = [pause('n0', 0, 90_000), { kind: 'failover', node: 'n0', atUs: 500 }];
    const cluster = { nodes: 1, replicaLagUs: 100 };
    expect(story({ cluster, faults, untilUs: 20_000 }, 'execute')).toEqual(['1000 n0 execute']);
  });

  it('lets its keys expire all the same', () => {
    const parts: Parts = { cluster: ONE_NODE, locks: [[lock(0, { ttlMs: 10 })]], faults: [pause('n0', 2_000, 90_000)] };
    expect(story(parts, 'key-gone')).toEqual(['12000 n0 key-gone']);
  });
});

describe('a frozen client', () => {
  const fates: Fate[] = ([30_000, 10_000, 1_000] as const).map((delayUs, i) => {
    return { client: 'c1', operation: 'acquire', node: `n${i}`, direction: 'reply', delayUs };
  });
  const answers = (parts: Parts): unknown[] =>
    trace({ cluster: { nodes: 3 }, fates, untilUs: 80_000, ...parts })
      .filter(({ kind }) => kind === 'reply')
      .map(({ atUs, detail }) => [atUs, detail.node]);

  it('takes what came in the order in which it came', () => {
    expect(answers({ faults: [pause('c1', 1_500, 40_000)] })).toEqual([
      [41_500, 'n2'],
      [41_500, 'n1'],
      [41_500, 'n0'],
    ]);
  });

  it('takes what came before what comes as it wakes', () => {
    expect(answers({ faults: [pause('c1', 1_500, 29_500)] })).toEqual([
      [31_000, 'n2'],
      [31_000, 'n1'],
      [31_000, 'n0'],
    ]);
  });

  it('keeps that order when it is frozen again, for longer, before it wakes', () => {
    const again = [pause('c1', 1_500, 20_000), pause('c1', 20_000, 30_000)];
    expect(answers({ faults: again })).toEqual([
      [50_000, 'n2'],
      [50_000, 'n1'],
      [50_000, 'n0'],
    ]);
  });

  it('is not woken by a shorter pause', () => {
    expect(answers({ faults: [pause('c1', 1_500, 40_000), pause('c1', 2_000, 1_000)] })[0]).toEqual([41_500, 'n2']);
  });

  it('calls, and hears of the loss of its lock, when it wakes', () => {
    expect(story({ locks: [[lock(1_000)]], faults: [pause('c1', 0, 5_000)] }, 'call')).toEqual(['5000 c1 call']);
    const faults = [pause('c1', 9_000_000, 1_000_000)];
    expect(story({ faults }, 'expired')).toEqual(['10000000 c1 expired']);
  });

  it('handles messages that came before its timers', () => {
    // The node time-out is due at 50 ms, the quorum came before.
    expect(story({ faults: [pause('c1', 1_500, 60_000)], untilUs: 70_000 }, 'claim')).toEqual(['61500 c1 claim']);
  });

  it('that dies handles nothing any more', () => {
    const faults: Fault[] = [pause('c1', 1_500, 10_000), { kind: 'client-crash', client: 'c1', atUs: 5_000 }];
    expect(story({ faults, untilUs: 20_000 }, 'reply', 'claim')).toEqual([]);
  });
});

describe('a dead client', () => {
  it('neither releases, nor extends, nor asks again', () => {
    const locks = [[lock(0, { holdUs: 5_000, extensions: [{ afterUs: 4_000, ttlMs: 10_000 }] }), lock(9_000)]];
    const faults: Fault[] = [{ kind: 'client-crash', client: 'c1', atUs: 5_000 }];
    expect(story({ locks, faults, untilUs: 20_000 }, 'call', 'release-call', 'extended', 'expired')).toEqual([
      '0 c1 call',
    ]);
  });

  it('does not take back what it has sent', () => {
    const faults: Fault[] = [{ kind: 'client-crash', client: 'c1', atUs: 500 }];
    expect(story({ cluster: ONE_NODE, faults }, 'execute')).toEqual(['1000 n0 execute']);
  });
});
