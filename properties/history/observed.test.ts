import { expect, test } from 'vitest';
import type { LockLine } from '../../scenarios/history-line.js';
import { judgeObserved, type Observed } from './observed.js';

function held(lock: string, atUs: number, validUs: number): LockLine[] {
  return [
    { type: 'acquire', lock, client: lock, resources: ['a'], ttlMs: 10, atUs: atUs - 10 },
    { type: 'acquired', lock, atUs, validUs },
  ];
}

const quiet: Observed = {
  history: held('c1/0', 100, 5_000),
  down: [],
  blocked: [],
  unsupported: [],
  unfounded: [],
  waiting: [],
  patienceUs: 1_000,
  endUs: 20_000,
};

test('a run in which nothing shows is safe', () => {
  expect(judgeObserved(quiet)).toEqual({ verdict: 'safe', properties: [], violations: [] });
});

test('two holders at once violate mutual exclusion', () => {
  const history = [...held('c1/0', 100, 5_000), ...held('c2/0', 5_099, 100)];
  expect(judgeObserved({ ...quiet, history })).toMatchObject({ verdict: 'violated', properties: ['mutual-exclusion'] });
});

test('a write after its claim has ended is a violation: the observer saw all', () => {
  const late: LockLine = { type: 'write', lock: 'c1/0', atUs: 5_100, resource: 'a' };
  const found = judgeObserved({ ...quiet, history: [...quiet.history, late] });
  expect(found).toMatchObject({ verdict: 'violated', properties: ['no-stale-write'] });
  const inTime = { ...late, atUs: 5_099 };
  expect(judgeObserved({ ...quiet, history: [...quiet.history, inTime] }).verdict).toBe('safe');
});

test('no quorum, or orphaned keys in the way, make it unavailable; a violation comes first', () => {
  const span = [{ fromUs: 1, toUs: 2 }];
  expect(judgeObserved({ ...quiet, down: span }).verdict).toBe('unavailable');
  expect(judgeObserved({ ...quiet, blocked: span }).verdict).toBe('unavailable');
  const history = [...held('c1/0', 100, 5_000), ...held('c2/0', 200, 100)];
  expect(judgeObserved({ ...quiet, history, down: span }).verdict).toBe('violated');
});

test('a wait for what nobody holds is an outage once it is longer than patience', () => {
  const waiting = [{ resources: ['a'], sinceUs: 50 }];
  // Held until 5 100: what counts is the time after that.
  expect(judgeObserved({ ...quiet, waiting, patienceUs: 14_899 }).verdict).toBe('unavailable');
  expect(judgeObserved({ ...quiet, waiting, patienceUs: 14_900 }).verdict).toBe('safe');
  expect(judgeObserved({ ...quiet, waiting, endUs: 5_000 }).verdict).toBe('safe');
  const after = [{ fromUs: 6_000, toUs: 19_500 }];
  expect(judgeObserved({ ...quiet, waiting, patienceUs: 10_000, down: after }).verdict).toBe('unavailable');
});

test('a belief that a majority does not have counts only where it is asked for', () => {
  const observed = { ...quiet, unsupported: ['c1/0'] };
  expect(judgeObserved(observed).verdict).toBe('safe');
  expect(judgeObserved(observed, ['quorum-backed'])).toMatchObject({
    verdict: 'violated',
    properties: ['quorum-backed'],
  });
});

test('a claim of nothing violates what it claims, where that is asked for', () => {
  const history: LockLine[] = [
    ...held('c1/0', 100, 0),
    { type: 'extend', lock: 'c1/0', atUs: 200, ttlMs: 10 },
    { type: 'extended', lock: 'c1/0', atUs: 210, validUs: 0 },
  ];
  expect(judgeObserved({ ...quiet, history }).verdict).toBe('safe');
  expect(judgeObserved({ ...quiet, history }, ['acquisition', 'extension']).properties).toEqual([
    'acquisition',
    'extension',
  ]);
});

test('an extension of a lock that another was granted since breaks its hold', () => {
  const history: LockLine[] = [
    ...held('c1/0', 100, 1_000),
    ...held('c2/0', 2_000, 100),
    { type: 'extend', lock: 'c1/0', atUs: 3_000, ttlMs: 10 },
    { type: 'extended', lock: 'c1/0', atUs: 3_010, validUs: 500 },
  ];
  expect(judgeObserved({ ...quiet, history }, ['continuity', 'loss-notified']).properties).toEqual(['continuity']);
});

test('what a client can tell to have no ground is a violation of what it says', () => {
  const unfounded = [{ lock: 'c1/0', property: 'loss-notified', detail: 'its owner is not told' }] as const;
  expect(judgeObserved({ ...quiet, unfounded }).verdict).toBe('safe');
  expect(judgeObserved({ ...quiet, unfounded }, ['loss-notified']).properties).toEqual(['loss-notified']);
});
