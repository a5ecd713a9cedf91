import { describe, expect, it } from 'vitest';
import type { ExploreScope } from './bounds.js';
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
      const { verdict, depth } = exploring({ ...change, ttl }, { property: 'quorum-backed' });
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
  it.each<[string, Partial<ExploreScope>, Partial<ExploreOptions>, string, number]>([
    ['a quorum of a minority', { policy: { deviations: ['quorum:1'] } }, {}, 'mutual-exclusion', 6],
    [
      'no check of the validity',
      { policy: { deviations: ['validity-unchecked'] } },
      { property: 'acquisition' },
      'acquisition',
      8,
    ],
    [
      'a validity that counts from the answers',
      { policy: { deviations: ['counts-from-reply'] } },
      {},
      'mutual-exclusion',
      13,
    ],
    [
      'an unchecked delete',
      { nodes: 1, clients: 3, releases: true, policy: { deviations: ['deletes-any'] } },
      {},
      'mutual-exclusion',
      10,
    ],
    [
      'an extension by a minority',
      { extensions: 1, policy: { deviations: ['extension-votes:-1'] } },
      {},
      'mutual-exclusion',
      16,
    ],
  ])('%s has a shortest counterexample, which replays', (_, change, options, property, depth) => {
    const found = exploring(change, options);
    expect(found).toMatchObject({ verdict: 'violated', depth });
    expect(replayed(change, found)).toContain(property);
  });
});

describe('extensions that heal', () => {
  const healing = (...deviations: string[]): Partial<ExploreScope> => ({
    extensions: 1,
    policy: { deviations: ['extension-heals', ...deviations] },
  });

  // With a crash, a delayed restart and a drift as well it takes minutes: docs/results.md.
  it('are safe while nothing goes wrong but messages', () => {
    expect(exploring(healing())).toMatchObject({ verdict: 'safe', exhausted: true, states: 477_977 });
  });

  it.each([
    ['a vote too few is enough', 'extension-votes:-1', 16],
    ['the validity counts from the answers', 'extension-counts-from-reply', 18],
  ])('are not where %s, which replays', (_, deviation, depth) => {
    const found = exploring(healing(deviation));
    expect(found).toMatchObject({ verdict: 'violated', depth });
    expect(replayed(healing(deviation), found)).toContain('mutual-exclusion');
  });
});

describe('fencing tokens', () => {
  const fenced = (change: Partial<ExploreScope>): Partial<ExploreScope> => ({ ...change, votes: 'granted' });

  it.each<[string, Partial<ExploreScope>, number]>([
    ['while nothing goes wrong but messages', {}, 2_776],
    ['when a node forgets', { crashes: 1, restartDelay: 0 }, 62_834],
    ['when a node is away for good', { crashes: 1 }, 12_880],
    ['when a node comes back with an old counter', { rollbacks: 1 }, 62_834],
  ])('rise %s', (_, change, states) => {
    const found = exploring(fenced(change), { property: 'fencing' });
    expect(found).toMatchObject({ verdict: 'safe', exhausted: true, states });
  });

  it.each<[string, Partial<ExploreScope>, number]>([
    ['nodes count on from an old counter', { rollbacks: 1, policy: { deviations: ['counter-kept'] } }, 19],
    ['nodes count from 0 again', { crashes: 1, restartDelay: 0, policy: { deviations: ['counter-from-zero'] } }, 19],
    [
      'a late write lowers a counter',
      { clients: 3, policy: { settings: { fencing: true }, deviations: ['counter-plainly-written'] } },
      25,
    ],
    ['a quorum is a minority', { policy: { deviations: ['quorum:1'] } }, 10],
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

  it.each<[Partial<ExploreScope>, string]>([
    [{ drift: 1 }, 'drift has no effect on fencing tokens'],
    [{ crashes: 1, restartDelay: 3 }, 'for fencing tokens a crashed node restarts at once or never'],
    [{ policy: { deviations: ['fence-max', 'grants-count'] } }, 'fencing tokens that are made of votes'],
  ])('are refused what a world without time would not act on', (change, message) => {
    expect(() => exploring(fenced(change))).toThrow(message);
  });
});

it('one token for all tries, on links that reorder, has a shortest counterexample, which replays', () => {
  const change = {
    retries: 1,
    timeout: 1,
    link: 'reordering',
    ttl: 2,
    policy: { deviations: ['token-per-call'] },
  } as const;
  const found = exploring(change);
  expect(found).toMatchObject({ verdict: 'violated', depth: 16 });
  expect(replayed(change, found)).toContain('mutual-exclusion');
});

it('depth first finds a way that replays', () => {
  const change = { crashes: 1, restartDelay: 0 };
  const found = exploring(change, { order: 'depth' });
  expect(found.verdict).toBe('violated');
  expect(replayed(change, found)).toContain('mutual-exclusion');
});
