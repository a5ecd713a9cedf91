import { describe, expect, it } from 'vitest';
import type { ExploreBounds } from './bounds.js';
import type { ExploreOptions } from './explore.js';
import { exploring, replayed } from './testing/exploring.js';

describe('three nodes, two clients, a TTL of three ticks', () => {
  it('are safe while nothing goes wrong but messages', () => {
    expect(exploring({})).toMatchObject({ verdict: 'safe', exhausted: true, states: 164_458, depth: 20 });
  });

  it('are not when a node forgets in a crash and is back at once', () => {
    const change = { crashes: 1, restartDelay: 0 };
    const found = exploring(change);
    expect(found).toMatchObject({ verdict: 'violated', exhausted: false, states: 34_433, depth: 11 });
    expect(replayed(change, found)).toContain('mutual-exclusion');
  });

  it('are not when one clock is off by a tick for which there is no allowance', () => {
    const found = exploring({ drift: 1 });
    expect(found).toMatchObject({ verdict: 'violated', depth: 12 });
    expect(replayed({ drift: 1 }, found)).toContain('mutual-exclusion');
  });
});

describe('a longer TTL', () => {
  it.each([3, 4, 5, 6])('of %i ticks breaks by the same faults, the drift a tick later for each', (ttl) => {
    const depths = [{ crashes: 1, restartDelay: 0 }, { drift: 1 }].map((change) => {
      const { verdict, depth } = exploring({ ...change, ttl }, { property: 'validity' });
      return { verdict, depth };
    });
    // A key lives longer by what the TTL is longer.
    expect(depths).toEqual([
      { verdict: 'violated', depth: 6 },
      { verdict: 'violated', depth: 4 + ttl },
    ]);
  });
});

describe('a planted bug', () => {
  it.each<[string, Partial<ExploreBounds>, Partial<ExploreOptions>, string, number]>([
    ['a quorum of a minority', { policy: { quorum: 1 } }, {}, 'mutual-exclusion', 6],
    ['no check of the validity', { policy: { validityCheck: 'none' } }, { property: 'acquisition' }, 'acquisition', 8],
    ['a validity that counts from the answers', { policy: { validityFrom: 'reply' } }, {}, 'mutual-exclusion', 13],
    [
      'an unchecked delete',
      { nodes: 1, clients: 3, releases: true, policy: { releaseChecksToken: false } },
      {},
      'mutual-exclusion',
      10,
    ],
    ['an extension by a minority', { extensions: 1, policy: { extendQuorumOffset: -1 } }, {}, 'mutual-exclusion', 16],
  ])('%s has a shortest counterexample, which replays', (_, change, options, property, depth) => {
    const found = exploring(change, options);
    expect(found).toMatchObject({ verdict: 'violated', depth });
    expect(replayed(change, found)).toContain(property);
  });
});

describe('fencing tokens', () => {
  const fenced = (change: Partial<ExploreBounds>): Partial<ExploreBounds> => ({ ...change, votes: 'granted' });

  it.each<[string, Partial<ExploreBounds>, number]>([
    ['while nothing goes wrong but messages', {}, 2_776],
    ['when a node forgets', { crashes: 1, restartDelay: 0 }, 62_834],
    ['when a node is away for good', { crashes: 1 }, 12_880],
    ['when a node comes back with an old counter', { rollbacks: 1 }, 62_834],
  ])('rise %s', (_, change, states) => {
    const found = exploring(fenced(change), { property: 'fencing' });
    expect(found).toMatchObject({ verdict: 'safe', exhausted: true, states });
  });

  it.each<[string, Partial<ExploreBounds>, number]>([
    ['nodes count on from an old counter', { rollbacks: 1, policy: { rejoin: 'copy-if-missing' } }, 19],
    ['nodes count from 0 again', { crashes: 1, restartDelay: 0, policy: { rejoin: 'at-once' } }, 19],
    ['a late write lowers a counter', { clients: 3, policy: { fencing: 'plain-write' } }, 25],
    ['a quorum is a minority', { policy: { quorum: 1 } }, 10],
  ])('go back where %s, which replays', (_, change, depth) => {
    const found = exploring(fenced(change), { property: 'fencing' });
    expect(found).toMatchObject({ verdict: 'violated', depth });
    expect(replayed(fenced(change), found)).toContain('fencing');
  });

  it('are the same with every node and client under its own name, and with nothing left out', () => {
    const change = fenced({ nodes: 2, crashes: 1, restartDelay: 0 });
    const verdicts = [true, false].flatMap((symmetry) =>
      [true, false].map((reduced) => exploring(change, { property: 'fencing', symmetry, reduced }).verdict),
    );
    expect(new Set(verdicts)).toEqual(new Set(['safe']));
  });

  it.each<[Partial<ExploreBounds>, string]>([
    [{ drift: 1 }, 'drift: nothing follows from it'],
    [{ crashes: 1, restartDelay: 3 }, 'a crashed node restarts at once or never'],
    [{ policy: { fencing: 'max' } }, 'fencing tokens that are made of votes'],
  ])('are refused what a world without time would not act on', (change, message) => {
    expect(() => exploring(fenced(change))).toThrow(message);
  });
});

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
    expect(() => exploring({ policy: { fencing: 'quorum' }, forever: true })).toThrow(
      'fencing counters grow without end',
    );
  });

  it('on a policy that the world would not act on are refused, because "safe" would say nothing', () => {
    expect(() => exploring({ policy: { beliefEnds: 'after-release' } })).toThrow('beliefEnds: only owners that stop');
    expect(() => exploring({ policy: { tokenFrom: 'clock' } })).toThrow('tokenFrom: tokens are numbered');
    expect(() => exploring({ policy: { sending: 'sequential' } })).toThrow('sending: only clients that ask all');
    expect(exploring({ nodes: 1, clients: 1, policy: { beliefEnds: 'at-release' } }).verdict).toBe('safe');
  });

  it('on states leave the space unexhausted, and nothing decided', () => {
    const stopped = exploring({}, { mostStates: 1000 });
    expect(stopped).toMatchObject({ verdict: 'inconclusive', exhausted: false, path: null });
    // What one state leads to is met whole.
    expect(stopped.states).toBeGreaterThanOrEqual(1000);
    expect(stopped.states).toBeLessThan(1100);
  });
});
