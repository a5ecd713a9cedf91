import { describe, expect, it } from 'vitest';
import { type RandomStream, RandomStreams } from './random.js';

function draws(stream: RandomStream, count: number, below = 1_000_000): number[] {
  return Array.from({ length: count }, () => stream.below(below));
}

/** Correlation of two equally long lists, between -1 and 1. */
function correlation(a: readonly number[], b: readonly number[]): number {
  const mean = (list: readonly number[]): number => list.reduce((sum, x) => sum + x, 0) / list.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [both, va, vb] = [0, 0, 0];
  for (const [i, x] of a.entries()) {
    const y = b[i] ?? 0;
    both += (x - ma) * (y - mb);
    va += (x - ma) ** 2;
    vb += (y - mb) ** 2;
  }
  return both / Math.sqrt(va * vb);
}

describe('streams of a seed', () => {
  it('are the same for ever', () => {
    expect(draws(new RandomStreams('lockstep').stream(0, 0), 4)).toEqual([921_195, 525_026, 525_850, 440_823]);
    expect(draws(new RandomStreams('lockstep').stream(99_999, 4), 4)).toEqual([434_269, 217_997, 716_733, 16_358]);
  });

  it('give the same twice, in whatever order they are asked for', () => {
    const streams = new RandomStreams('order');
    const first = streams.stream(3, 1);
    const second = streams.stream(3, 2);
    const mixed = [second.below(100), first.below(100), second.below(100), first.below(100)];
    const again = new RandomStreams('order');
    const [b1, b2] = draws(again.stream(3, 2), 2, 100);
    const [a1, a2] = draws(again.stream(3, 1), 2, 100);
    expect(mixed).toEqual([b1, a1, b2, a2]);
  });

  it('do not shift when another concern draws more', () => {
    const streams = new RandomStreams('concerns');
    const quiet = draws(streams.stream(7, 1), 5);
    draws(streams.stream(7, 0), 1_000);
    expect(draws(streams.stream(7, 1), 5)).toEqual(quiet);
  });

  it.each(['seed', 'run', 'concern'])('are unrelated where the %s differs by one', (what) => {
    const nth = (i: number): RandomStream => {
      if (what === 'seed') return new RandomStreams(String(i)).stream(0, 0);
      return what === 'run' ? new RandomStreams('s').stream(i, 0) : new RandomStreams('s').stream(0, i);
    };
    // First values of neighbours against each other, and two neighbouring sequences.
    const firsts = Array.from({ length: 2_001 }, (_, i) => nth(i).below(1_000_000));
    expect(Math.abs(correlation(firsts.slice(0, -1), firsts.slice(1)))).toBeLessThan(0.08);
    expect(Math.abs(correlation(draws(nth(0), 2_000), draws(nth(1), 2_000)))).toBeLessThan(0.08);
    expect(new Set(firsts).size).toBeGreaterThan(1_950);
  });

  it('differ for seeds of which one repeats the other', () => {
    const first = (seed: string): number => new RandomStreams(seed).stream(0, 0).below(2 ** 32);
    expect(new Set(['', '1', '11', '111', 'ab', 'abab'].map(first)).size).toBe(6);
  });

  it('differ between runs that are 2³² apart', () => {
    const streams = new RandomStreams('far');
    expect(draws(streams.stream(5 + 2 ** 32, 0), 3)).not.toEqual(draws(streams.stream(5, 0), 3));
  });
});

describe('a stream', () => {
  const stream = (): RandomStream => new RandomStreams('draws').stream(0, 0);

  it('stays below its bound and reaches all of it', () => {
    const seen = new Set(draws(stream(), 1_000, 7));
    expect([...seen].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(draws(stream(), 100, 1)).toEqual(Array(100).fill(0));
    for (const value of draws(stream(), 10_000, 2 ** 32)) expect(value).toBeLessThan(2 ** 32);
  });

  it('draws between two bounds, both included', () => {
    const draw = stream();
    const seen = new Set(Array.from({ length: 200 }, () => draw.between(-1, 1)));
    expect([...seen].sort((a, b) => a - b)).toEqual([-1, 0, 1]);
  });

  it('hits a chance about as often as it says, never at 0 and always at a million', () => {
    const draw = stream();
    let hits = 0;
    for (let i = 0; i < 20_000; i++) if (draw.chance(250_000)) hits++;
    expect(hits).toBeGreaterThan(4_750);
    expect(hits).toBeLessThan(5_250);
    expect(Array.from({ length: 100 }, () => draw.chance(0))).not.toContain(true);
    expect(Array.from({ length: 100 }, () => draw.chance(1_000_000))).not.toContain(false);
  });

  it('picks each member', () => {
    const draw = stream();
    expect(new Set(Array.from({ length: 100 }, () => draw.pick(['a', 'b', 'c']))).size).toBe(3);
  });

  it('draws subsets of the size asked for, each member alike', () => {
    const draw = stream();
    const counts = [0, 0, 0, 0, 0];
    for (let i = 0; i < 5_000; i++) {
      const chosen = draw.subset(5, 2);
      expect(chosen).toHaveLength(2);
      expect(chosen).toEqual([...chosen].sort());
      for (const member of chosen) counts[member] = (counts[member] ?? 0) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 2_000)).toBeLessThan(150);
    expect(draw.subset(3, 0)).toEqual([]);
    expect(draw.subset(3, 3)).toEqual([0, 1, 2]);
  });
});
