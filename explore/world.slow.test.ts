import { describe, expect, it } from 'vitest';
import { DEFAULT_SCOPE } from './bounds.js';
import { explore } from './explore.js';
import { playBothWays } from './testing/both-ways.js';

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
