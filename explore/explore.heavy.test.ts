import { describe, expect, it } from 'vitest';
import { exploring } from './testing/exploring.js';

describe('a reduction', () => {
  const small = { nodes: 2, ttl: 2 } as const;

  it('changes how many states there are, and no verdict', () => {
    const counts = [
      { symmetry: true, reduced: true },
      { symmetry: false, reduced: true },
      { symmetry: true, reduced: false },
      { symmetry: false, reduced: false },
    ].map((options) => {
      const { verdict, states } = exploring(small, options);
      return { ...options, verdict, states };
    });
    expect(counts).toEqual([
      { symmetry: true, reduced: true, verdict: 'safe', states: 3_343 },
      { symmetry: false, reduced: true, verdict: 'safe', states: 12_844 },
      { symmetry: true, reduced: false, verdict: 'safe', states: 11_826 },
      { symmetry: false, reduced: false, verdict: 'safe', states: 46_364 },
    ]);
  });

  it('of symmetry finds a counterexample of the same length', () => {
    const change = { ...small, crashes: 2, restartDelay: 0 };
    const lengths = [true, false].map((symmetry) => exploring(change, { symmetry }).depth);
    expect(new Set(lengths).size).toBe(1);
  });
});

describe('depth first', () => {
  it('meets the same states as breadth first', () => {
    const change = { nodes: 2, ttl: 2 };
    const deep = exploring(change, { order: 'depth' });
    expect(deep).toMatchObject({ verdict: 'safe', exhausted: true, states: exploring(change).states });
  });
});

describe('bounds', () => {
  it('that cannot be are refused in a sentence', () => {
    expect(() => exploring({ nodes: 8 })).toThrow('nodes must be a whole number from 1 to 7, not 8');
    expect(() => exploring({ allowance: 3 })).toThrow('the allowance must be less than the TTL');
    expect(() => exploring({ policy: { settings: { fencing: true } }, forever: true })).toThrow(
      'fencing counters grow without end',
    );
  });

  it('on a policy that the world would not act on are refused, because "safe" would say nothing', () => {
    expect(() => exploring({ policy: { habits: { beliefEnds: 'after-release' } } })).toThrow(
      'beliefEnds: only owners that stop',
    );
    expect(() => exploring({ policy: { habits: { tokenFrom: 'clock' } } })).toThrow('tokenFrom: tokens are numbered');
    expect(() => exploring({ policy: { habits: { nodesFrom: 'connected' } } })).toThrow('nodesFrom: only clients');
    expect(() => exploring({ policy: { habits: { tokenPerProcess: true } } })).toThrow('tokenPerProcess: each attempt');
    expect(() => exploring({ policy: { deviations: ['asks-in-turn'] } })).toThrow(
      'asks-in-turn: only clients that ask all',
    );
    expect(exploring({ nodes: 1, clients: 1, policy: { habits: { beliefEnds: 'at-release' } } }).verdict).toBe('safe');
  });

  it('on states leave the space unexhausted, and nothing decided', () => {
    const stopped = exploring({}, { mostStates: 1000 });
    expect(stopped).toMatchObject({ verdict: 'inconclusive', exhausted: false, path: null });
    // What one state leads to is met whole.
    expect(stopped.states).toBeGreaterThanOrEqual(1000);
    expect(stopped.states).toBeLessThan(1100);
  });
});
