import { describe, expect, it } from 'vitest';
import { again } from './again.js';
import { runShard } from './local.js';
import { type CampaignPart, mergeParts, noPart, rangesDone, totalOf } from './part.js';
import { once, shard } from './testing/shard.js';
import { guidedSpecFor } from './testing/spec.js';

describe('a guided campaign', () => {
  const spec = guidedSpecFor(8, 1, 1);
  const inOnePiece = once(() => shard(spec, 1, 1));

  it('gives what came near to later ranges, each of which comes to the same alone', async () => {
    const part = await inOnePiece();
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
    const whole = await inOnePiece();
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
