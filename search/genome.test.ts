import { expect, it } from 'vitest';
import { Streams } from '../sim/index.js';
import { type Edit, GenomeStreams } from './genome.js';

const streams = new Streams('genome');
const FROM = 3;
const TO = 9;

/** The first ten draws of concern 0 in run 3, edited, and those of runs 3 and 9. */
function draws(...edits: Edit[]): { readonly made: number[]; readonly old: number[]; readonly other: number[] } {
  const ten = (source: { stream(run: number, concern: number): { word(): number } }, run: number): number[] => {
    const stream = source.stream(run, 0);
    return Array.from({ length: 10 }, () => stream.word());
  };
  const made = ten(new GenomeStreams(streams, [{ run: FROM, edits }]), 77);
  return { made, old: ten(streams, FROM), other: ten(streams, TO) };
}

it('draws what its run draws where nothing is edited', () => {
  const { made, old } = draws();
  expect(made).toEqual(old);
});

it('goes on with another run from an edit on', () => {
  const { made, old, other } = draws({ at: 4, run: TO, only: false });
  expect(made).toEqual([...old.slice(0, 4), ...other.slice(0, 6)]);
});

it('changes a single draw and keeps those behind it', () => {
  const { made, old, other } = draws({ at: 4, run: TO, only: true });
  expect(made).toEqual([...old.slice(0, 4), other[0], ...old.slice(5)]);
});

it('has the streams of the run for concerns without a gene, and counts what is drawn', () => {
  const source = new GenomeStreams(streams, []);
  const stream = source.stream(5, 2);
  expect(stream.word()).toBe(streams.stream(5, 2).word());
  stream.word();
  expect([source.drawn(2), source.drawn(1)]).toEqual([2, 0]);
});
