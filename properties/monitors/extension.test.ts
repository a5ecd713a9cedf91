import { describe, expect, it } from 'vitest';
import type { Fate } from '../../scenarios/index.js';
import { lock } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

const locks = [[lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] })]];

/** Fates that lose the extension on its way to these nodes. */
function unextended(...nodes: string[]): Fate[] {
  return nodes.map((node) => ({ client: 'c1', operation: 'extend', node, direction: 'request', lost: true }));
}

describe('extension', () => {
  it('is broken by one vote too few in the round, when it is taken for extended', () => {
    const policy = { deviations: ['extension-votes:-1'] };
    expect(found('extension', { locks, policy, fates: unextended('n2', 'n3', 'n4') })).toEqual(['c1 5004000']);
  });

  it('is broken by one that is over when it is taken for one, and not with a microsecond left', () => {
    // 33 ms, less the allowance of 3 ms and two ways.
    const short = (delayUs: number) => ({
      cluster: { delayUs },
      locks: [[lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 33 }] })]],
      policy: { deviations: ['extension-unchecked'] } as const,
    });
    expect(found('extension', short(15_000))).toEqual(['c1 5060000']);
    expect(found('extension', short(14_999))).toEqual([]);
    expect(found('extension', { ...short(15_000), policy: {} })).toEqual([]);
  });

  it('holds with a bare majority, and where too few votes are a refusal', () => {
    expect(found('extension', { locks, fates: unextended('n3', 'n4') })).toEqual([]);
    expect(found('extension', { locks, fates: unextended('n2', 'n3', 'n4') })).toEqual([]);
  });

  it('is broken by a new deadline that counts from the answers, and not by the latest that is right', () => {
    expect(found('extension', { locks, policy: { deviations: ['extension-counts-from-reply'] } })).toEqual([
      'c1 5004000',
    ]);
    expect(found('extension', { locks })).toEqual([]);
  });
});
