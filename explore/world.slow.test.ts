import { describe, expect, it } from 'vitest';
import { DEFAULT_SCOPE, type ExploreScope } from './bounds.js';
import { explore } from './explore.js';
import { playBothWays } from './testing/both-ways.js';

describe('a bounded world', () => {
  it.each<[string, Partial<ExploreScope>, number]>([
    ['with releases', { nodes: 1, ttl: 2, releases: true }, 2_949],
    ['with an extension', { nodes: 1, ttl: 2, extensions: 1, timeout: 2 }, 5_953],
    [
      'with extensions of what is lost',
      { nodes: 1, ttl: 2, extensions: 1, policy: { deviations: ['extends-late'] } },
      7_255,
    ],
    ['with retries, time-outs and losses', { nodes: 1, clients: 1, ttl: 2, timeout: 1, losses: 1, retries: 1 }, 1_364],
    [
      'with what only the granted are told',
      {
        nodes: 2,
        clients: 1,
        ttl: 2,
        releases: true,
        retries: 1,
        timeout: 1,
        policy: { deviations: ['cleans-granted', 'releases-granted'] },
      },
      5_934,
    ],
    [
      'with a late count of a validity that nobody checked',
      { nodes: 1, ttl: 1, policy: { deviations: ['validity-unchecked', 'deadline-counted-after-us:3000'] } },
      2_556,
    ],
    [
      'with a crash and drift',
      { nodes: 1, clients: 1, ttl: 2, crashes: 1, restartDelay: 2, drift: 1, pauses: 1 },
      2_702,
    ],
    [
      'with fencing tokens of nodes that go by an old counter',
      { nodes: 2, votes: 'granted', rollbacks: 1, policy: { deviations: ['counter-kept'] } },
      8_068,
    ],
    ['with votes, time and fencing tokens', { nodes: 1, ttl: 1, policy: { settings: { fencing: true } } }, 4_849],
  ])('%s is what the lock and the node do without memory', (_, change, transitions) => {
    expect(playBothWays({ ...DEFAULT_SCOPE, ...change })).toBe(transitions);
  });
});

describe('a bounded world of two clients that try twice', () => {
  it('is what the lock and the node do without memory, in each of its transitions', () => {
    expect(playBothWays({ ...DEFAULT_SCOPE, nodes: 1, ttl: 2, timeout: 1, retries: 1 })).toBe(210_274);
  });
});

describe('fencing tokens of nodes of which one forgets and one is rolled back', () => {
  const bounds = { ...DEFAULT_SCOPE, votes: 'granted', crashes: 1, restartDelay: 0, rollbacks: 1 } as const;

  it('are what the lock and two nodes do without memory', () => {
    expect(playBothWays({ ...bounds, nodes: 2 })).toBe(154_958);
  });

  it('rise in every order of messages on three nodes', () => {
    const found = explore({ bounds, property: 'fencing' });
    expect(found).toMatchObject({ verdict: 'safe', exhausted: true, states: 631_519 });
  });
});
