import { describe, expect, it } from 'vitest';
import { Packing } from './packing.js';

const KINDS = [0, 0, 1, 1, 1, 2];

function through(packing: Packing, state: Uint16Array): Uint16Array {
  const words = new Uint32Array(3 + packing.width);
  expect(packing.pack(state, words, 3)).toBe(true);
  const read = new Uint16Array(state.length);
  packing.unpack(words, 3, read);
  return read;
}

describe('a packed state', () => {
  it('is read as it was written', () => {
    const packing = new Packing(KINDS, [9, 4, 1]);
    const state = Uint16Array.of(511, 0, 15, 7, 0, 1);
    expect(through(packing, state)).toEqual(state);
  });

  it('has a word more where its numbers are greater', () => {
    const packing = new Packing(KINDS, [1, 1, 1]);
    expect(packing.width).toBe(1);
    const state = Uint16Array.of(1, 1, 1, 1, 4095, 1);
    expect(packing.pack(state, new Uint32Array(1), 0)).toBe(false);
    const wider = Packing.for(KINDS, state);
    expect(wider.width).toBe(2);
    expect(through(wider, state)).toEqual(state);
  });

  it('is never all ones', () => {
    for (let bits = 1; bits <= 16; bits++) {
      const packing = new Packing(KINDS, [bits, bits, bits]);
      const words = new Uint32Array(packing.width);
      packing.pack(
        Uint16Array.from(KINDS, (kind) => 2 ** (packing.bits[kind] ?? 0) - 1),
        words,
        0,
      );
      expect([...words].every((word) => word === 0xffff_ffff)).toBe(false);
    }
  });
});
