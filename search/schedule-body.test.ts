import { describe, expect, it } from 'vitest';
import { type Fate, parseSchedule } from '../scenarios/index.js';
import { lock, schedule, unreached } from '../sim/testing/schedule.js';
import { bodyOf, withBody } from './schedule-body.js';

const plan = schedule({
  cluster: { clocks: [{ process: 'c2', offsetUs: 5, ratePpm: 0 }] },
  locks: [[lock(0)], [lock(2_000)]],
  faults: [
    { kind: 'pause', process: 'c2', atUs: 1, forUs: 1 },
    { kind: 'partition', atUs: 1, from: ['c1', 'c2'], to: ['n0', 'n4'], oneWay: false, forUs: 1 },
    { kind: 'client-crash', client: 'c1', atUs: 1 },
    { kind: 'crash', node: 'n4', atUs: 1, restartAfterUs: null },
  ],
  fates: [...unreached('c1', 'n3'), ...unreached('c2', 'n4')],
});

describe('a course', () => {
  it('put back into its schedule gives the schedule', () => {
    expect(withBody(plan, bodyOf(plan))).toEqual(plan);
  });

  it('without a client leaves out what was about it', () => {
    const course = bodyOf(plan);
    const smaller = withBody(plan, { ...course, clients: course.clients.slice(0, 1) });
    expect(smaller.cluster.clocks).toEqual([]);
    expect(smaller.fates).toEqual(unreached('c1', 'n3'));
    expect(smaller.faults.map(({ kind }) => kind)).toEqual(['partition', 'client-crash', 'crash']);
    expect(smaller.faults[0]).toMatchObject({ from: ['c1'], to: ['n0', 'n4'] });
    expect(parseSchedule(smaller)).toEqual(smaller);
  });

  it('becomes a valid schedule whatever is wrong with it', () => {
    const course = bodyOf(plan);
    const write = { checkAfterUs: 9, guardUs: null, sendAfterUs: 3, delayUs: 0 };
    const same = { kind: 'partition', atUs: 0, from: ['n0'], to: ['n0'], oneWay: true, forUs: 1 } as const;
    const lost: Fate = { client: 'c1', operation: 'release', node: 'n0', direction: 'reply', lost: true, delayUs: 4 };
    const mended = withBody(plan, {
      clients: [...course.clients, { id: 'c1', locks: [] }, { id: 'c3', locks: [lock(0, { writes: [write] })] }],
      faults: [same, { ...same, from: ['c9', 'c1'] }],
      fates: [lost, { ...lost, attempt: 0 }, { ...lost, lock: 7 }, { ...lost, lost: false, node: 'n1' }],
      clocks: [
        { process: 'c1', offsetUs: 0, ratePpm: 0 },
        { process: 'n0', offsetUs: 1, ratePpm: 0 },
        { process: 'n0', offsetUs: 2, ratePpm: 0 },
      ],
    });
    expect(parseSchedule(mended)).toEqual(mended);
    expect(mended.clients.map(({ id }) => id)).toEqual(['c1', 'c2', 'c3']);
    expect(mended.clients[2]?.locks[0]?.writes).toEqual([{ ...write, sendAfterUs: 9 }]);
    expect(mended.faults).toEqual([{ ...same, from: ['c1'] }]);
    expect(mended.cluster.clocks).toEqual([{ process: 'n0', offsetUs: 1, ratePpm: 0 }]);
    expect(mended.fates).toHaveLength(2);
  });
});
