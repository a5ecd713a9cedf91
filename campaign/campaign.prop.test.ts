import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { check } from '../search/index.js';
import { engineHash } from './engine.js';
import { runShard } from './local.js';
import { mergeParts, missingFrom, noPart, partOf, rangesDone, totalOf, violatingRuns } from './part.js';
import { CampaignRanges, type CampaignSpec, isLibrary, specHash } from './spec.js';
import { once, shard } from './testing/shard.js';
import { specFor, unitOf } from './testing/spec.js';

const RANGES = 4;

describe('the ranges of a campaign', () => {
  it('have every run of each search once, and take turns by weight', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 3_000 }), fc.integer({ min: 1, max: 70 }), (each, runs, size) => {
        const spec = { ...specFor(1, ...each), runs, rangeRuns: size };
        const ranges = new CampaignRanges(spec);
        const next = each.map(() => 0);
        for (let i = 0; i < ranges.count; i++) {
          const { index, search, from, to } = ranges.at(i);
          // One by one, a matcher would take longer than the ranges.
          if (index !== i || from !== next[search] || to <= from) expect.fail(`range ${i} is from ${from} to ${to}`);
          next[search] = to;
        }
        expect(next.reduce((sum, it) => sum + it, 0)).toBe(runs);
        const total = each.reduce((sum, weight) => sum + weight, 0);
        each.forEach((weight, i) => {
          // Nobody is a whole range ahead of its share or behind it.
          const due = (ranges.count * weight) / total;
          expect(Math.abs(Math.ceil((next[i] ?? 0) / size) - due)).toBeLessThan(1.5);
        });
      }),
      { seed: 1, numRuns: 200 },
    );
  });
});

describe('a campaign', () => {
  const spec = specFor(RANGES, 2, 1);
  const inOnePiece = once(() => shard(spec, 1, 1));
  /** Its ranges, each made alone, and not in their order. */
  const rangesAlone = once(() => {
    const ranges = new CampaignRanges(spec);
    return Array.from({ length: RANGES }, (_, i) => ranges.at((i * 3) % RANGES)).map((range) => unitOf(spec, range));
  });

  it('comes to the same in one piece, in shards, and in ranges of any order', async () => {
    const whole = await inOnePiece();
    expect(whole).toMatchObject({ done: [[0, RANGES]] });
    expect(violatingRuns(totalOf(whole))).toBeGreaterThan(5);
    expect(whole.failures.length).toBeGreaterThan(0);
    const shards = await Promise.all([3, 1, 2].map((number) => shard(spec, number, 3)));
    expect(shards.reduce(mergeParts)).toEqual(whole);
    const parts = rangesAlone().map((unit) => partOf(spec, unit));
    expect(parts.reduce(mergeParts)).toEqual(whole);
    expect(JSON.parse(JSON.stringify(whole))).toEqual(whole);
  });

  it('of one search makes the runs that the search makes alone', async () => {
    const one = specFor(4);
    const { plan } = one.searches[0];
    if (isLibrary(plan)) throw new Error('it has no library');
    const { faultModel, seed, strategy } = plan;
    const { hash, events, exercised, near } = await check({
      faultModel,
      seed,
      strategy,
      properties: [],
      runs: one.runs,
    });
    const safe: CampaignSpec = {
      ...one,
      searches: [{ ...one.searches[0], plan: { ...one.searches[0].plan, properties: [] } }],
    };
    expect(totalOf(await shard(safe, 1, 1))).toMatchObject({ hash, events, exercised, near, runs: one.runs });
  });

  it('goes on where it was stopped, and knows what is missing', async () => {
    const stop = new AbortController();
    const some = await runShard({
      spec,
      shard: { number: 1, of: 1 },
      workers: 1,
      signal: stop.signal,
      onPart: (part) => {
        if (rangesDone(part) === 3) stop.abort();
      },
    });
    expect(some.done).toEqual([[0, 3]]);
    expect(missingFrom(some)).toEqual([[3, RANGES]]);
    expect(missingFrom(await shard(spec, 2, RANGES))).toEqual([
      [0, 1],
      [2, RANGES],
    ]);
    expect(await shard(spec, 1, 1, some)).toEqual(await inOnePiece());
  });

  it('ends when so many are found', async () => {
    const part = await shard({ ...spec, stopAfter: 3 }, 1, 1);
    expect(violatingRuns(totalOf(part))).toBeGreaterThanOrEqual(3);
    expect(rangesDone(part)).toBeLessThan(RANGES);
  });

  it('refuses parts that overlap, or are of another campaign or engine', async () => {
    const part = await shard(spec, 1, 6);
    expect(() => mergeParts(part, part)).toThrow('range 0 is in two of these parts');
    expect(() => mergeParts(part, noPart({ ...spec, runs: 7 }))).toThrow('of different campaigns');
    expect(() => mergeParts(part, noPart({ ...spec, engine: 'that one' }))).toThrow('different engines');
    expect(specHash(spec)).not.toBe(specHash(specFor(RANGES, 1, 2)));
  });

  it('keeps one failure of each shape, the first one', async () => {
    const { failures } = await inOnePiece();
    expect(new Set(failures.map(({ shape }) => shape)).size).toBe(failures.length);
    for (const failure of rangesAlone().flatMap((unit) => unit.failures)) {
      const kept = failures.find(({ shape }) => shape === failure.shape);
      expect(kept).toBeDefined();
      if (kept?.search === failure.search) expect(kept.run).toBeLessThanOrEqual(failure.run);
      else expect(kept?.search).toBeLessThan(failure.search);
    }
  });
});

describe('the engine', () => {
  it('has a hash of its own', () => {
    expect(engineHash()).toMatch(/^[0-9a-f]{16}$/);
    expect(engineHash()).toBe(engineHash());
  });

  it("has another one where libraries run, and where a module of one's own changes", () => {
    const path = join(mkdtempSync(join(tmpdir(), 'lockstep-')), 'mine.mjs');
    writeFileSync(path, 'export default 1;');
    const hashes = [engineHash(), engineHash([{ id: 'redlock5' }]), engineHash([{ id: 'mine', path }])];
    expect(new Set(hashes).size).toBe(3);
    const other = `${path.slice(0, -8)}other.mjs`;
    writeFileSync(other, 'export default 2;');
    expect(hashes).not.toContain(engineHash([{ id: 'mine', path: other }]));
  });
});
