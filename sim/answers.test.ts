import { describe, expect, it } from 'vitest';
import type { Fault } from '../scenarios/index.js';
import { lock, type Parts, schedule, story } from './testing/schedule.js';

const ONE_NODE = { nodes: 1 };

/** When c1's commands are carried out, and when their answers are there. */
function answers(parts: Parts): string[] {
  return story(
    { policy: { settings: { nodeTimeoutUs: null } }, untilUs: 3_000_000, ...parts },
    'execute',
    'reply',
    'claim',
  );
}

describe('a node that waits for its replica (WAIT)', () => {
  const cluster = { ...ONE_NODE, replicaLagUs: 7_000, answers: 'replicated' } as const;

  it('says yes when the key is there too', () => {
    expect(answers({ cluster })).toEqual(['1000 n0 execute', '9000 c1 reply', '9000 c1 claim']);
  });

  it('says no, and answers a release, at once', () => {
    const locks = [[lock(0, { holdUs: 20_000 })], [lock(10_000)]];
    const times = answers({ cluster, locks, policy: { settings: { tries: 1 } } });
    expect(times).toContain('12000 c2 reply');
    expect(times.slice(-2)).toEqual(['30000 n0 execute', '31000 c1 reply']);
  });

  it('says nothing when it dies before, or has no replica any more', () => {
    const crash: Fault = { kind: 'crash', node: 'n0', atUs: 7_999, restartAfterUs: 0 };
    expect(answers({ cluster, faults: [crash] })).toEqual(['1000 n0 execute']);
    const two = { ...cluster, nodes: 2 };
    const takeOver: Fault = { kind: 'failover', node: 'n0', to: 'n1', atUs: 500 };
    expect(answers({ cluster: two, views: [{ nodes: ['n0'] }], faults: [takeOver] })).toEqual(['1000 n0 execute']);
  });

  it('waits while it is frozen', () => {
    const pause: Fault = { kind: 'pause', process: 'n0', atUs: 5_000, forUs: 20_000 };
    expect(answers({ cluster, faults: [pause] })).toContain('26000 c1 claim');
  });

  it('needs one', () => {
    expect(() => schedule({ cluster: { answers: 'replicated' } })).toThrowErrorMatchingInlineSnapshot(
      `[ScheduleError: /cluster/answers: there are no replicas to wait for; set replicaLagUs of the cluster to their lag]`,
    );
  });
});

describe('a node that waits for its disk (WAITAOF)', () => {
  it('says yes when the fsync is complete that takes the key in', () => {
    const fsync = { firstUs: 1_000, everyUs: 1_000_000, takesUs: 4_000 };
    const cluster = { ...ONE_NODE, persistence: 'everysec', answers: 'durable', fsync } as const;
    expect(answers({ cluster })).toContain('6000 c1 claim');
    expect(answers({ cluster: { ...cluster, fsync: { ...fsync, firstUs: 999 } } })).toContain('1005999 c1 claim');
  });

  it('need not wait under fsync always, or without a disk', () => {
    for (const persistence of ['always', 'none'] as const) {
      expect(answers({ cluster: { ...ONE_NODE, persistence, answers: 'durable' } })).toContain('2000 c1 claim');
    }
  });
});

/** What became of c1's key, which is set at 1 ms. */
function keys(parts: Parts): string[] {
  return story({ cluster: ONE_NODE, untilUs: 30_000_000, ...parts }, 'restart', 'key-gone');
}

describe('a restart', () => {
  const crash = { kind: 'crash', node: 'n0', atUs: 3_000, restartAfterUs: 2_000_000 } as const;

  it('after a shutdown in order finds all on disk, if there is one', () => {
    const clean: Fault = { ...crash, clean: true };
    const fsync = { firstUs: 2_000, everyUs: 1_000_000, takesUs: 5_000 };
    const everysec = { ...ONE_NODE, persistence: 'everysec', fsync } as const;
    expect(keys({ cluster: everysec, faults: [clean] })).toEqual(['2003000 n0 restart', '10002000 n0 key-gone']);
    expect(keys({ faults: [clean] })).toEqual(['2003000 n0 restart', '2003000 n0 key-gone']);
    const killed = keys({ cluster: { ...everysec, fsync: { ...fsync, firstUs: 500 } }, faults: [crash] });
    expect(killed).toEqual(['2003000 n0 restart', '2003000 n0 key-gone']);
    expect(() => schedule({ faults: [{ ...crash, clean: true, power: true }] })).toThrowErrorMatchingInlineSnapshot(
      `[ScheduleError: /faults/0/clean: the power does not go in order; leave out one of power and clean]`,
    );
  });

  it('finds nothing of what a node answered before its fsync, if the power went', () => {
    const early = { ...ONE_NODE, persistence: 'always', answers: 'executed' } as const;
    expect(keys({ cluster: early, faults: [{ ...crash, power: true }] })).toContain('2003000 n0 key-gone');
    expect(keys({ cluster: early, faults: [crash] })).toContain('10002000 n0 key-gone');
  });

  it('gives keys a new life where their TTL starts again', () => {
    const cluster = { ...ONE_NODE, persistence: 'always', expiryAtLoad: 'restarts' } as const;
    expect(keys({ cluster, faults: [crash] })).toEqual(['2003000 n0 restart', '12004000 n0 key-gone']);
  });

  const byClock: Fault = { ...crash, restartBy: 'node-clock' };
  const restarts = (parts: Parts): string[] => story({ untilUs: 30_000_000, ...parts }, 'restart');

  it('comes by the clock of the node where that measures the delay', () => {
    const clocks = [{ process: 'n0', offsetUs: 0, ratePpm: 250_000 }];
    expect(restarts({ faults: [byClock], cluster: { ...ONE_NODE, clocks } })).toEqual(['1603000 n0 restart']);
    const step = (byUs: number): Fault => ({ kind: 'clock-step', process: 'n0', atUs: 1_000_000, byUs });
    expect(restarts({ faults: [byClock, step(400_000)] })).toEqual(['1603000 n0 restart']);
    expect(restarts({ faults: [byClock, step(-400_000)] })).toEqual(['2403000 n0 restart']);
    expect(restarts({ faults: [byClock, step(5_000_000)] })).toEqual(['1000000 n0 restart']);
  });
});
