import { describe, expect, it } from 'vitest';
import type { Cluster, Crash } from '../scenarios/index.js';
import { plainCluster } from '../scenarios/plain.js';
import { answersAfterUs, keptUntil } from './disk.js';
import { trueTime } from './time.js';

const EVERYTHING = Number.POSITIVE_INFINITY;
const NOTHING = -1;

function kept(cluster: Partial<Cluster>, atUs: number, crash: Partial<Crash> = {}): number {
  const all = { kind: 'crash', node: 'n0', atUs, restartAfterUs: 0, ...crash } as const;
  return keptUntil(plainCluster(1, cluster), trueTime(atUs), all);
}

describe('fsyncs that take longer than their period', () => {
  const slow: Partial<Cluster> = {
    persistence: 'everysec',
    fsync: { firstUs: 0, everyUs: 1_000_000, takesUs: 1_500_000 },
  };

  it('do not overlap: the next begins when one is complete', () => {
    const power = { power: true };
    expect(kept(slow, 1_499_999, power)).toBe(NOTHING);
    expect(kept(slow, 1_500_000, power)).toBe(0);
    // Would one have begun at 1 s, it would be complete.
    expect(kept(slow, 2_600_000, power)).toBe(0);
    expect(kept(slow, 3_000_000, power)).toBe(1_500_000);
  });

  it('keep new writes in the process all the time', () => {
    expect(kept(slow, 1_400_000)).toBe(0);
    expect(kept(slow, 1_600_000)).toBe(1_500_000);
  });

  it('put off answers until the next of them is complete', () => {
    const cluster = plainCluster(1, { ...slow, answers: 'durable' });
    expect(answersAfterUs(cluster, trueTime(1), false)).toBe(3_000_000 - 1);
  });
});

describe('dumps', () => {
  const dumped: Partial<Cluster> = { persistence: 'rdb', dumps: { firstUs: 100, everyUs: 1_000, takesUs: 50 } };

  it.each([{}, { power: true }])('leave what was there when the last complete one began: %o', (crash) => {
    expect([149, 150, 1_149, 1_150].map((at) => kept(dumped, at, crash))).toEqual([NOTHING, 100, 100, 1_100]);
    expect(kept({ persistence: 'rdb' }, 60_000_000, crash)).toBe(NOTHING);
    expect(kept({ persistence: 'rdb' }, 3_600_000_000, crash)).toBe(3_600_000_000);
  });

  it('are made by a server that is shut down in order', () => {
    expect(kept(dumped, 149, { clean: true })).toBe(EVERYTHING);
  });
});

describe('a disk that is set back', () => {
  it('has what it had so long before the crash', () => {
    const dumped: Partial<Cluster> = { persistence: 'rdb', dumps: { firstUs: 100, everyUs: 1_000, takesUs: 50 } };
    expect(kept(dumped, 3_000, { ageUs: 1_000 })).toBe(1_100);
    expect(kept({ persistence: 'always' }, 3_000, { ageUs: 1_000 })).toBe(2_000);
    expect(kept({ persistence: 'always' }, 3_000, { ageUs: 5_000, clean: true })).toBe(NOTHING);
    expect(kept({ persistence: 'everysec' }, 3_500_000, { ageUs: 1_000_000 })).toBe(2_000_000);
    expect(kept({ persistence: 'none' }, 3_000, { ageUs: 1_000 })).toBe(NOTHING);
  });
});
