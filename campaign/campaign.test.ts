import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { check } from '../properties/index.js';
import { again } from './again.js';
import { engineHash } from './engine.js';
import { runShard } from './local.js';
import {
  type CampaignPart,
  mergeParts,
  missingFrom,
  noPart,
  partOf,
  rangesDone,
  totalOf,
  violatingRuns,
} from './part.js';
import { CampaignRanges, type CampaignSpec, isGuest, specHash } from './spec.js';
import { guidedSpecFor, specFor, unitOf } from './testing/spec.js';

const RANGES = 6;
const signal = new AbortController().signal;
const onPart = (): void => {};

function shard(spec: CampaignSpec, number: number, of: number, from?: CampaignPart): Promise<CampaignPart> {
  return runShard({ spec, shard: { number, of }, workers: 1, signal, onPart, ...(from && { from }) });
}

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
          expect(index).toBe(i);
          expect(from).toBe(next[search]);
          expect(to).toBeGreaterThan(from);
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

  it('comes to the same in one piece, in shards, and in ranges of any order', async () => {
    const whole = await shard(spec, 1, 1);
    expect(whole).toMatchObject({ done: [[0, RANGES]] });
    expect(violatingRuns(totalOf(whole))).toBeGreaterThan(5);
    expect(whole.failures.length).toBeGreaterThan(0);
    const shards = await Promise.all([3, 1, 2].map((number) => shard(spec, number, 3)));
    expect(shards.reduce(mergeParts)).toEqual(whole);
    const ranges = new CampaignRanges(spec);
    const units = Array.from({ length: RANGES }, (_, i) => ranges.at((i * 5) % RANGES)).map((range) =>
      partOf(spec, unitOf(spec, range)),
    );
    expect(units.reduce(mergeParts)).toEqual(whole);
    expect(JSON.parse(JSON.stringify(whole))).toEqual(whole);
  });

  it('of one search makes the runs that the search makes alone', async () => {
    const one = specFor(4);
    const { plan } = one.searches[0];
    if (isGuest(plan)) throw new Error('it has no library');
    const { weather, seed, strategy } = plan;
    const { hash, events, exercised, near } = await check({ weather, seed, strategy, properties: [], runs: one.runs });
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
    expect(await shard(spec, 1, 1, some)).toEqual(await shard(spec, 1, 1));
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
    const { failures } = await shard(spec, 1, 1);
    expect(new Set(failures.map(({ shape }) => shape)).size).toBe(failures.length);
    const all = new CampaignRanges(spec);
    for (let i = 0; i < RANGES; i++) {
      const range = all.at(i);
      for (const failure of unitOf(spec, range).failures) {
        const kept = failures.find(({ shape }) => shape === failure.shape);
        expect(kept).toBeDefined();
        if (kept?.search === failure.search) expect(kept.run).toBeLessThanOrEqual(failure.run);
        else expect(kept?.search).toBeLessThan(failure.search);
      }
    }
  });
});

describe('a guided campaign', () => {
  const spec = guidedSpecFor(8, 1, 1);

  it('gives what came near to later ranges, each of which comes to the same alone', async () => {
    const part = await shard(spec, 1, 1);
    expect(part.done).toEqual([[0, 8]]);
    expect(part.begun[0]?.inputs).toEqual([]);
    expect(part.begun[7]?.inputs.length).toBeGreaterThan(5);
    for (let index = 0; index < 8; index++) {
      const { inputs, digest, unit } = await again(JSON.parse(JSON.stringify(part)), index);
      expect([index, inputs, unit.tally.hash]).toEqual([index, part.begun[index]?.inputs.length, digest]);
    }
    // What a range begins with is of its own search, and of ranges before it.
    const ids = part.begun[6]?.inputs ?? [];
    const misses = part.near.filter(({ id }) => ids.includes(id));
    expect(new Set(misses.map(({ search }) => search))).toEqual(new Set([0]));
    const ranges = misses.flatMap(({ miss }) => miss.genome.map(({ run }) => Math.floor(run / spec.rangeRuns)));
    expect(new Set(ranges).size).toBeGreaterThan(1);
    expect(Math.max(...ranges)).toBeLessThan(3);
  });

  it('is not what its ranges come to without each other, and can be parted and gone on with', async () => {
    const whole = await shard(spec, 1, 1);
    const parts = [await shard(spec, 1, 3), await shard(spec, 2, 3), await shard(spec, 3, 3)];
    const merged = parts.reduce(mergeParts);
    expect(merged.done).toEqual(whole.done);
    expect(totalOf(merged).hash).not.toBe(totalOf(whole).hash);
    for (const index of [0, 5, 6, 7]) {
      const { digest, unit } = await again(merged, index);
      expect(unit.tally.hash).toBe(digest);
    }
    const stop = new AbortController();
    const onFirst = (part: CampaignPart): void => {
      if (rangesDone(part) === 4) stop.abort();
    };
    const some = await runShard({
      spec,
      shard: { number: 1, of: 1 },
      workers: 1,
      signal: stop.signal,
      onPart: onFirst,
    });
    expect(await shard(spec, 1, 1, JSON.parse(JSON.stringify(some)))).toEqual(whole);
  });

  it('refuses to make again what is not there, or what another engine made', async () => {
    const part = noPart(spec);
    await expect(again(part, 3)).rejects.toThrow('range 3: it has not been made');
    await expect(again(noPart({ ...spec, engine: 'that one' }), 3)).rejects.toThrow('different engines');
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
