import { describe, expect, it } from 'vitest';
import { DEFAULT_SCOPE, type ExploreScope } from './bounds.js';
import { exploreLiveness, type LivenessResult } from './liveness.js';

function exploring(change: Partial<ExploreScope>): LivenessResult {
  return exploreLiveness({ bounds: { ...DEFAULT_SCOPE, forever: true, ...change } });
}

describe('clients that try for ever', () => {
  it.each<[string, Partial<ExploreScope>, number]>([
    ['one node, whose answers may come too late', { nodes: 1, timeout: 1 }, 0],
    ['two nodes, of which each may get one', { nodes: 2, ttl: 2 }, 102_881],
    ['three nodes, of which one dies', { clients: 1, timeout: 1, crashes: 1 }, 26_957],
  ])('%s: can always get the lock still', (_, change, states) => {
    const { verdict, trapped, states: met } = exploring(change);
    expect({ verdict, trapped }).toEqual({ verdict: 'safe', trapped: 0 });
    if (states > 0) expect(met).toBe(states);
  });

  it('cannot once a majority of the nodes is dead', () => {
    const { verdict, trapped, depth } = exploring({ clients: 1, timeout: 1, crashes: 2 });
    expect(verdict).toBe('violated');
    expect(trapped).toBeGreaterThan(0);
    // Two crashes, and somebody who asks.
    expect(depth).toBe(3);
  });
});

describe('a planted bug', () => {
  it('of a quorum that is rounded up traps a client when one node of three is dead', () => {
    const { verdict, depth } = exploring({
      clients: 1,
      timeout: 1,
      crashes: 1,
      policy: { deviations: ['float-majority'] },
    });
    expect({ verdict, depth }).toEqual({ verdict: 'violated', depth: 2 });
  });

  it('of settling only when one side has a quorum traps two clients in a tie', () => {
    const { verdict, depth } = exploring({ nodes: 2, ttl: 2, policy: { deviations: ['settles-by-quorum-only'] } });
    expect({ verdict, depth }).toEqual({ verdict: 'violated', depth: 6 });
  });
});
