import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../bench/oracle/agreement.js';
import type { Fate } from '../../scenarios/index.js';
import { lock, type Parts, schedule, unreached } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';
import { found } from '../testing/found.js';

const three = unreached('c1', 'n2', 'n3', 'n4');
const late = (delayUs: number): Fate[] => [
  { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request', delayUs },
  ...unreached('c1', 'n1', 'n2', 'n3', 'n4'),
];

describe('cleanup', () => {
  it('is broken by a failed attempt that leaves its keys, when it has failed', () => {
    expect(
      found('cleanup', { policy: { settings: { tries: 1 }, deviations: ['cleans-nothing'] }, fates: three }),
    ).toEqual(['c1 50000']);
  });

  it('is broken by an attempt that leaves its keys to the next one, when that begins', () => {
    const policy = { settings: { tries: 2 }, deviations: ['cleans-last-only'] } as const;
    expect(found('cleanup', { policy, fates: three })).toEqual(['c1 250000']);
  });

  it('is broken by a key that is set after the attempt has failed, as it is set', () => {
    const policy = { settings: { tries: 1 }, deviations: ['cleans-granted'] } as const;
    expect(found('cleanup', { policy, fates: late(60_000) })).toEqual(['c1 60000']);
    expect(found('cleanup', { policy, fates: late(50_000) })).toEqual(['c1 50000']);
  });

  it('holds when every node was sent a release, whatever became of it', () => {
    const lost: Fate[] = ['n0', 'n1'].map((node) => {
      return { client: 'c1', operation: 'release', node, direction: 'request', lost: true };
    });
    expect(found('cleanup', { policy: { settings: { tries: 1 } }, fates: [...three, ...lost] })).toEqual([]);
    expect(found('cleanup', { policy: { settings: { tries: 1 } }, fates: late(60_000) })).toEqual([]);
  });

  it('holds when there is nothing to clean up, or the keys end with their claim', () => {
    const policy = { settings: { tries: 1 }, deviations: ['cleans-nothing'] } as const;
    expect(found('cleanup', { policy, fates: unreached('c1', 'n0', 'n1', 'n2', 'n3', 'n4') })).toEqual([]);
    expect(found('cleanup', { policy })).toEqual([]);
  });

  it('is broken by a release that leaves out a node which has the key', () => {
    const fates: Fate[] = [{ client: 'c1', operation: 'acquire', node: 'n4', direction: 'reply', lost: true }];
    const locks = [[lock(0, { holdUs: 5_000 })]];
    expect(found('cleanup', { policy: { deviations: ['releases-granted'] }, locks, fates })).toEqual(['c1 7000']);
    expect(found('cleanup', { locks, fates })).toEqual([]);
  });

  it('is broken by a key that came after its release, when its client knows of both and does nothing', () => {
    // c1 gives up at 50 ms; its release is at n0 at 51 ms, its SET at 60 ms, and the answer to that is back at 61 ms.
    const policy = { settings: { tries: 1 }, deviations: ['late-grants-stay'] } as const;
    const cluster = { link: 'reordering' } as const;
    expect(found('cleanup', { policy, cluster, fates: late(60_000) })).toEqual(['c1 61000']);
    expect(found('cleanup', { cluster, policy: { settings: { tries: 1 } }, fates: late(60_000) })).toEqual([]);
    // The answer to the release comes last.
    const slow: Fate = { client: 'c1', operation: 'release', node: 'n0', direction: 'reply', delayUs: 30_000 };
    expect(found('cleanup', { policy, cluster, fates: [...late(60_000), slow] })).toEqual(['c1 81000']);
    // What the client does not hear of it cannot mend; and a release that comes later does.
    const unheard: Fate = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'reply', lost: true };
    expect(found('cleanup', { policy, cluster, fates: [...late(60_000), unheard] })).toEqual([]);
    expect(found('cleanup', { policy, cluster, fates: late(50_500) })).toEqual([]);
  });

  it('asks for another release of what came after the last one, not of what the client can still hope that ends', () => {
    // A copy of the SET is at n1 at 20 ms and replaces the client's own next key; the answer to it is back 1 µs later.
    const set = { client: 'c1', operation: 'acquire', node: 'n1', direction: 'request' } as const;
    const release = { client: 'c1', operation: 'release', node: 'n1', direction: 'request' } as const;
    const copied = (...deviations: string[]): Parts => ({
      cluster: { nodes: 3, delayUs: 1, link: 'reordering' },
      policy: { settings: { tries: 1 }, deviations: ['sets-any', ...deviations] },
      locks: [[lock(0, { holdUs: 0 }), lock(10_000)]],
      fates: [
        { ...set, delayUs: 10_000, duplicateDelayUs: 20_000 },
        { ...release, delayUs: 10_000 },
        { ...release, send: 1, lost: true },
      ],
    });
    const silent = copied('late-grants-stay');
    // The answers to the first SET and release made it send a second release, which is lost: it knows of none that came.
    expect(found('cleanup', copied())).toEqual([]);
    expect(found('cleanup', silent)).toEqual(['c1 20001']);
    for (const parts of [copied(), silent]) expect(disagreementOn(schedule(parts))).toBeNull();
  });

  it('is not mended by a release that is tried again after a pause', () => {
    // Gives the lock back at 12 ms; the release is at n0 at 13 ms, and the SET at 20 ms, which is heard of at 21 ms.
    const parts: Parts = {
      cluster: { link: 'reordering' },
      policy: {
        settings: { releaseTries: 2, retryDelayUs: 200_000 },
        deviations: ['release-must-delete', 'late-grants-stay'],
      },
      locks: [[lock(0, { holdUs: 10_000 })]],
      faults: [
        { kind: 'data-loss', node: 'n1', atUs: 5_000 },
        { kind: 'data-loss', node: 'n2', atUs: 5_000 },
      ],
      fates: [
        { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request', delayUs: 20_000 },
        { client: 'c1', operation: 'release', node: 'n0', direction: 'reply', delayUs: 30_000 },
      ],
    };
    expect(found('cleanup', parts)).toEqual(['c1 43000']);
    expect(disagreementOn(schedule(parts))).toBeNull();
  });

  it('is broken by an extension that sets a key where the release was carried out, as it is set', () => {
    // Extended at 3 ms, released at 7 ms; the release is at n0 at 8 ms, and the extension after `delayUs`.
    const parts = (delayUs: number, ...deviations: string[]): Parts => ({
      cluster: { link: 'reordering' },
      policy: { deviations },
      locks: [[lock(0, { holdUs: 5_000, extensions: [{ afterUs: 1_000, ttlMs: 10_000 }] })]],
      fates: [{ client: 'c1', operation: 'extend', node: 'n0', direction: 'request', delayUs }],
    });
    expect(found('cleanup', parts(5_001, 'extends-missing'))).toEqual(['c1 8001']);
    expect(found('cleanup', parts(4_999, 'extends-missing'))).toEqual([]);
    expect(found('cleanup', parts(5_001))).toEqual([]);
    expect(disagreementOn(schedule(parts(5_001, 'extends-missing')))).toBeNull();
    // One that is to heal releases what it sets late, unless that is left out.
    expect(found('cleanup', parts(5_001, 'extension-heals'))).toEqual([]);
    expect(found('cleanup', parts(5_001, 'extension-heals', 'late-grants-stay'))).toEqual(['c1 8001']);
    for (const more of [[], ['late-grants-stay']])
      expect(disagreementOn(schedule(parts(5_001, 'extension-heals', ...more)))).toBeNull();
  });

  it('counts only where it is asked for', () => {
    const plan = schedule({ policy: { settings: { tries: 1 }, deviations: ['cleans-nothing'] }, fates: three });
    const [plain, asked] = [judge(plan), judge(plan, ['cleanup'])];
    expect([plain.verdict, plain.violations, plain.verdicts.liveness]).toEqual(['safe', [], 'unchecked']);
    expect([asked.verdict, asked.verdicts.liveness]).toEqual(['violated', 'violated']);
    expect(judge(schedule(), ['cleanup']).verdicts.liveness).toBe('safe');
  });
});
