import { describe, expect, it } from 'vitest';
import { disagreementOn } from '../../bench/oracle/agreement.js';
import { lock, type Parts, schedule } from '../../sim/testing/schedule.js';
import { found } from '../testing/found.js';

// Set at 1 ms for 10 s, which a node takes for over when its clock shows a millisecond more.
const DUE_US = 10_002_000;
const everywhere = (atUs: number): string[] => Array(5).fill(`c1 ${atUs}`);

function late(parts: Parts): string[] {
  expect(disagreementOn(schedule(parts))).toBeNull();
  return found('bounded-key-lifetime', parts);
}

describe('bounded-key-lifetime', () => {
  it('is broken by a key without a TTL, on each node, when the TTL that was asked for is over', () => {
    expect(late({ policy: { deviations: ['key-for-ever'] } })).toEqual(everywhere(DUE_US));
    expect(late({})).toEqual([]);
  });

  it('is broken by a key whose TTL begins again when its node loads it', () => {
    const faults: Parts['faults'] = [{ kind: 'crash', node: 'n0', atUs: 5_000_000, restartAfterUs: 1_000_000 }];
    const cluster = { persistence: 'always', expiryAtLoad: 'restarts' } as const;
    expect(late({ cluster, faults })).toEqual([`c1 ${DUE_US}`]);
    expect(late({ cluster: { persistence: 'always' }, faults })).toEqual([]);
  });

  it('asks nothing of a node that is down, and looks again when it is up', () => {
    const crash = (restartAfterUs: number): Parts => ({
      policy: { deviations: ['key-for-ever'] },
      cluster: { persistence: 'always' },
      faults: [{ kind: 'crash', node: 'n0', atUs: 9_000_000, restartAfterUs }],
    });
    const others = everywhere(DUE_US).slice(1);
    expect(late(crash(3_000_000)).sort()).toEqual([...others, 'c1 12000000']);
    expect(late(crash(60_000_000))).toEqual(others);
  });

  it('goes by the clock of the node, which may be set back or run slowly', () => {
    const back: Parts['faults'] = [{ kind: 'clock-step', process: 'n0', atUs: 5_000_000, byUs: -3_000_000 }];
    expect(late({ faults: back })).toEqual([]);
    const set = late({ policy: { deviations: ['key-for-ever'] }, faults: back });
    expect(set).toEqual([`c1 ${DUE_US + 3_000_000}`, ...everywhere(DUE_US).slice(1)]);
    const on: Parts['faults'] = [{ kind: 'clock-step', process: 'n0', atUs: 5_000_000, byUs: 6_000_000 }];
    expect(late({ policy: { deviations: ['key-for-ever'] }, faults: on })).toEqual([
      'c1 5000000',
      ...everywhere(DUE_US).slice(1),
    ]);
    expect(late({ faults: on })).toEqual([]);
  });

  it('counts the TTL of an extension from when it is carried out', () => {
    const locks = [[lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] })]];
    expect(late({ locks })).toEqual([]);
    // Claimed at 2 ms, and extended on the nodes at 5 003 ms.
    expect(late({ locks, policy: { deviations: ['key-for-ever'] } })).toEqual(everywhere(15_004_000));
  });

  it('does not count an extension that the node refused, or whose script it does not know', () => {
    const locks = [[lock(0, { extensions: [{ afterUs: 5_000_000, ttlMs: 10_000 }] })]];
    const extended = everywhere(15_004_000).slice(1);
    const refuse: Parts['faults'] = [
      { kind: 'error-replies', node: 'n0', operations: ['extend'], atUs: 5_000_000, forUs: 100_000 },
    ];
    const deviations = ['key-for-ever'] as const;
    expect(late({ locks, policy: { deviations: [...deviations] }, faults: refuse })).toEqual([
      `c1 ${DUE_US}`,
      ...extended,
    ]);
    // The process of n0 is new when the extension comes by its hash, and its text is lost on the way.
    const cluster = { persistence: 'always', scripts: 'by-hash' } as const;
    const crash: Parts['faults'] = [{ kind: 'crash', node: 'n0', atUs: 4_000_000, restartAfterUs: 0 }];
    const fates: Parts['fates'] = [{ client: 'c1', operation: 'extend', node: 'n0', direction: 'reply', lost: true }];
    const parts: Parts = { locks, policy: { deviations: [...deviations] }, cluster, faults: crash, fates };
    expect(late(parts)[0]).toEqual(`c1 ${DUE_US}`);
  });
});
