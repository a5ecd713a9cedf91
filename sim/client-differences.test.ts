import { expect, it } from 'vitest';
import type { PolicyChange } from '../deviations/index.js';
import type { Fault } from '../scenarios/index.js';
import { lock, type Parts, story, trace } from './testing/schedule.js';

/*
 * Choices of a policy that the world around the lock carries out: tokens, connections, and what a node does.
 */

function tokens(policy: PolicyChange, parts: Parts = {}): unknown[] {
  const locks = [[lock(0, { holdUs: 10_000 }), lock(50_000)], [lock(50_000, { resources: ['b'] })]];
  return trace({ cluster: { nodes: 1 }, locks, ...parts, policy })
    .filter((it) => it.kind === 'send' && it.detail.operation === 'acquire' && it.process.startsWith('c'))
    .map(({ process, detail }) => `${process} ${detail.token}`);
}

it('a process with one token for all its life uses it for each of its locks, and a new process has another', () => {
  expect(tokens({})).toEqual(['c1 1', 'c1 2', 'c2 3']);
  expect(tokens({ deviations: ['token-per-call'], habits: { tokenPerProcess: true } })).toEqual([
    'c1 1',
    'c1 1',
    'c2 2',
  ]);
  const faults: Fault[] = [{ kind: 'client-crash', client: 'c1', atUs: 20_000, restartAfterUs: 0 }];
  expect(tokens({ deviations: ['token-per-call'], habits: { tokenPerProcess: true } }, { faults })).toEqual([
    'c1 1',
    'c1 2',
    'c2 3',
  ]);
});

it('tokens made of the microsecond are the same only in the same microsecond', () => {
  const at = (us: number): Parts => ({ locks: [[lock(0)], [lock(us, { resources: ['b'] })]] });
  expect(tokens({ habits: { tokenFrom: 'clock-us' } }, at(0))).toEqual(['c1 1', 'c2 1']);
  expect(tokens({ habits: { tokenFrom: 'clock-us' } }, at(1))).toEqual(['c1 1', 'c2 2']);
  expect(tokens({ habits: { tokenFrom: 'clock' } }, at(1))).toEqual(['c1 1', 'c2 1']);
});

it('a client that counts the nodes it is connected to needs a majority of those', () => {
  const faults: Fault[] = [
    { kind: 'partition', atUs: 0, from: ['c1'], to: ['n1', 'n2', 'n3'], oneWay: false, forUs: 1_000_000 },
    { kind: 'crash', atUs: 0, node: 'n4', restartAfterUs: null },
  ];
  const claims = (nodesFrom: 'configured' | 'connected'): string[] =>
    story({ policy: { settings: { tries: 1 }, habits: { nodesFrom } }, faults }, 'claim', 'acquire-failed');
  expect(claims('connected')).toEqual(['2000 c1 claim']);
  expect(claims('configured')).toEqual(['50000 c1 acquire-failed']);
});

it('a node that finds the own token gives its key the whole TTL again, or leaves it as it is', () => {
  const again: Parts = {
    cluster: { nodes: 1, delayUs: 1_000 },
    locks: [[lock(0, { ttlMs: 1_000 })]],
    fates: [{ client: 'c1', operation: 'acquire', node: 'n0', direction: 'reply', lost: true }],
  };
  const own = ['token-per-call', 'no-alarm', 'cleans-last-only'];
  const gone = (deviation: string): string[] =>
    story({ ...again, policy: { deviations: [...own, deviation] } }, 'key-gone');
  expect(gone('own-key-grants')).toEqual(['1002000 n0 key-gone']);
  // The second try begins at 250 ms.
  expect(gone('own-key-renews')).toEqual(['1252000 n0 key-gone']);
});

it('a unit that is converted in the loop makes keys live a thousandfold longer with each retry', () => {
  const parts: Parts = {
    cluster: { nodes: 1 },
    locks: [[lock(0, { ttlMs: 10 })]],
    fates: [{ client: 'c1', operation: 'acquire', node: 'n0', direction: 'request', lost: true }],
  };
  const gone = (...deviations: string[]): string[] => story({ ...parts, policy: { deviations } }, 'key-gone');
  expect(gone()).toEqual(['262000 n0 key-gone']);
  expect(gone('key-thousandfold-per-retry')).toEqual(['10252000 n0 key-gone']);
});
