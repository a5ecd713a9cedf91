import { describe, expect, it } from 'vitest';
import { SAFETY } from '../properties/property-lists.js';
import { type CheckOptions, type CheckResult, check } from './check.js';
import { WITHIN_ASSUMPTIONS } from './fault-model.js';
import { faultModelFor, MUTANTS } from './mutants/registry.js';
import { searchRange } from './range.js';
import type { SearchPool } from './search-pool.js';

const RUNS = 1_500;
const SAFE: CheckOptions = { faultModel: WITHIN_ASSUMPTIONS, seed: 'pool', runs: RUNS, properties: SAFETY };
/** Its first violation is beyond the runs that are made before help comes. */
const LATE: CheckOptions = { ...SAFE, faultModel: weatherOf('M38'), seed: 'later', properties: ['continuity'] };

/** What they come to without help: made once. */
const safeAlone = check(SAFE);
const lateAlone = check(LATE);

function weatherOf(id: string): CheckOptions['faultModel'] {
  const mutant = MUTANTS.find((it) => it.id === id);
  if (mutant === undefined) throw new Error(`${id} is not planted`);
  return faultModelFor(mutant);
}

interface Watched {
  closed: number;
  readonly asked: [number, number][];
}

/** A pool that answers out of order, as many at a time as it has members. */
function crewOf(size: number, watched: Watched, fails = Number.POSITIVE_INFINITY): SearchPool {
  return {
    size,
    search: async (plan, from, to) => {
      watched.asked.push([from, to]);
      const late = (watched.asked.length * 7) % 5;
      for (let i = 0; i < late; i++) await new Promise((resolve) => setImmediate(resolve));
      if (from >= fails) throw new Error('the worker died');
      return searchRange(plan, from, to);
    },
    close: async () => {
      watched.closed++;
    },
  };
}

/** Help comes at once: every look at the clock is half a second after the last. */
function hurried(): () => number {
  let now = 0;
  return () => {
    now += 500;
    return now;
  };
}

async function helped(options: CheckOptions, size: number, fails?: number): Promise<[CheckResult, Watched]> {
  const watched: Watched = { closed: 0, asked: [] };
  const pool = async (): Promise<SearchPool> => crewOf(size, watched, fails);
  return [await check({ ...options, clock: hurried(), pool }), watched];
}

function comparable({ elapsedMs: _, workers: __, ...result }: CheckResult): unknown {
  return result;
}

describe.each([1, 2, 7])('a search with a pool of %i', (size) => {
  it('comes to the same as one without, where nothing is found', async () => {
    const [result, { asked, closed }] = await helped(SAFE, size);
    expect(comparable(result)).toEqual(comparable(await safeAlone));
    expect(result).toMatchObject({ verdict: 'passed', workers: size });
    expect(asked.length).toBeGreaterThan(5);
    expect(closed).toBe(1);
  });

  it('finds the same first violation after the same runs', async () => {
    const alone = await lateAlone;
    const [result, { closed, asked }] = await helped(LATE, size);
    expect(alone.verdict).toBe('violated');
    expect(alone.counterexample?.run).toBeGreaterThan(asked[0]?.[1] ?? 0);
    expect(comparable(result)).toEqual(comparable(alone));
    expect(closed).toBe(1);
  });
});

describe('a pool', () => {
  it('is not called for where the search is short', async () => {
    const pool = (): Promise<SearchPool> => {
      throw new Error('nobody is needed');
    };
    expect((await check({ ...SAFE, clock: () => 0, pool })).workers).toBe(1);
  });

  it('that fails is no finding, and no pass', async () => {
    await expect(helped(SAFE, 2, 800)).rejects.toThrow('the worker died');
  });

  it('that fails behind a violation takes nothing from it', async () => {
    const { runs, ...alone } = await lateAlone;
    const [result] = await helped(LATE, 2, runs);
    expect(result).toMatchObject({ runs, hash: alone.hash, verdict: 'violated' });
  });

  it('leaves, when the search is stopped, the runs up to some one', async () => {
    const stop = new AbortController();
    const watched: Watched = { closed: 0, asked: [] };
    const pool = async (): Promise<SearchPool> => crewOf(2, watched);
    const onProgress = ({ runs }: { runs: number }): void => {
      if (runs > 800) stop.abort();
    };
    const result = await check({ ...SAFE, clock: hurried(), pool, signal: stop.signal, onProgress });
    expect(result.interrupted).toBe(true);
    expect(result.runs).toBeGreaterThan(800);
    expect(result.runs).toBeLessThan(RUNS);
    expect(watched.closed).toBe(1);
    const { hash, events } = await check({ ...SAFE, runs: result.runs });
    expect(result).toMatchObject({ hash, events });
  });
});
