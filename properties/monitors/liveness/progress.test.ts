import { describe, expect, it } from 'vitest';
import type { Fault, Schedule } from '../../../scenarios/index.js';
import { lock, type Parts } from '../../../sim/testing/schedule.js';
import { found } from '../../testing/found.js';

const progress = (parts: Parts): string[] => found('progress', parts);

const CLIENTS = ['c1', 'c2', 'c3'];

/** Each of three clients is nearest to another of three nodes: all ask at once, and nobody has two votes. */
const distances: Schedule['cluster']['distances'] = CLIENTS.flatMap((client, near) =>
  [0, 1, 2].map((node) => ({ client, node: `n${node}`, delayUs: node === near ? 1_000 : 3_000 })),
);
const split: Parts = {
  cluster: { nodes: 3, distances },
  policy: { settings: { tries: null, retryJitterUs: 0 } },
  locks: CLIENTS.map(() => [lock(0)]),
};

describe('among clients that keep trying', () => {
  it('somebody has the lock before all have failed eleven times', () => {
    // A round takes 6 ms and a pause of 200 ms; the twelfth begins when the eleventh has failed.
    expect(progress(split)).toEqual(['c1 c2 c3 2266000']);
    expect(progress({ ...split, policy: { settings: { tries: 10, retryJitterUs: 0 } } })).toEqual([]);
    expect(progress({ ...split, policy: { settings: { tries: 11, retryJitterUs: 0 } } })).toEqual(['c1 c2 c3 2066000']);
  });

  it('the count begins again with each disturbance', () => {
    const step: Fault = { kind: 'clock-step', process: 'n0', atUs: 1_000_000, byUs: 1 };
    expect(progress({ ...split, faults: [step] })).toEqual(['c1 c2 c3 3296000']);
  });

  it('nobody is asked to get past a holder, or past keys that are there for a reason', () => {
    const first = [lock(0, { holdUs: 9_000_000 })];
    const others = [[lock(5_000)], [lock(5_000)]];
    const parts: Parts = { policy: { settings: { tries: null, retryJitterUs: 0 } }, locks: [first, ...others] };
    expect(progress(parts)).toEqual([]);
    expect(progress({ ...parts, faults: [{ kind: 'client-crash', client: 'c1', atUs: 6_000 }] })).toEqual([]);
  });

  it('time goes on, however often they try', () => {
    const locks = [[lock(0)], [lock(1_000)]];
    const parts: Parts = {
      cluster: { delayUs: 0 },
      policy: { settings: { tries: null }, deviations: ['no-pauses'] },
      locks,
    };
    expect(progress(parts)).toEqual(['c2 1000']);
    // Forty thousand events of two clients: it stops within a tenth of a second.
    expect(progress({ ...parts, cluster: { delayUs: 1 } })).toEqual(['c2 4810']);
    expect(progress({ ...parts, cluster: { delayUs: 100 }, untilUs: 1_000_000 })).toEqual([]);
    expect(
      progress({ ...parts, policy: { settings: { tries: null, retryDelayUs: 50_000, retryJitterUs: 0 } } }),
    ).toEqual([]);
  });

  it('one alone is another matter, and so are those that want something else', () => {
    expect(progress({ policy: { settings: { tries: null }, deviations: ['quorum:6'] }, locks: [[lock(0)]] })).toEqual(
      [],
    );
    const apart = ['a', 'b', 'c'].map((resource) => [lock(0, { resources: [resource] })]);
    expect(progress({ policy: { settings: { tries: null }, deviations: ['quorum:6'] }, locks: apart })).toEqual([]);
  });
});
