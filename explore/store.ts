import { Packing } from './packing.js';

/** States, as so many words of 32 bits each. */
type Words = Uint32Array;

/** The state that has no parent. */
export const NO_PARENT = 0xffff_ffff;

const FIRST_CAPACITY = 1 << 12;
/** A slot has the number + 1 of a state in its low bits, and above them a part of its hash, which tells most others apart. */
const TAG_SHIFT = 28;
const NUMBER_MASK = (1 << TAG_SHIFT) - 1;
/** The share of slots that are taken at most. */
const FULLEST = 0.7;
/** States that are looked up together, so that their cache misses overlap. */
export const BATCH = 1024;

/**
 * The states that were met, each once, numbered in the order of meeting, with the state that each was first reached from.
 * An open-addressing table of numbers over one flat array of words: neither objects nor strings, so that tens of
 * millions fit.
 */
export class StateStore {
  /** Words of a state. */
  width: number;
  count = 0;
  private states: Uint32Array;
  private parents: Uint32Array;
  /** The slots; 0 is a free one. */
  private slots: Uint32Array;
  private mask: number;
  private readonly ahead = new Uint32Array(BATCH);

  constructor(width: number) {
    this.width = width;
    this.states = new Uint32Array(FIRST_CAPACITY * width);
    this.parents = new Uint32Array(FIRST_CAPACITY);
    this.slots = new Uint32Array(FIRST_CAPACITY * 2);
    this.mask = this.slots.length - 1;
  }

  /** Takes in the state that begins at `from`, whose hash is `h`. Its number if it is new, -1 if it was known. */
  add(words: Words, from: number, h: number, parent: number): number {
    const { width, slots, mask } = this;
    let slot = h & mask;
    for (;;) {
      const taken = slots[slot] ?? 0;
      if (taken === 0) break;
      if (isTagOf(taken, h) && this.equals(numberIn(taken), words, from)) return -1;
      slot = (slot + 1) & mask;
    }
    const number = this.count++;
    if (number === this.parents.length) this.grow();
    const { states } = this;
    const at = number * width;
    for (let i = 0; i < width; i++) states[at + i] = words[from + i] ?? 0;
    this.parents[number] = parent;
    slots[slot] = slotFor(h, number);
    if (this.count > slots.length * FULLEST) this.rehash(2 * slots.length);
    return number;
  }

  /** The number of a state, -1 if it was never met. */
  find(state: Words): number {
    const h = hashOf(state, 0, this.width);
    let slot = h & this.mask;
    for (;;) {
      const taken = this.slots[slot] ?? 0;
      if (taken === 0) return -1;
      if (isTagOf(taken, h) && this.equals(numberIn(taken), state, 0)) return numberIn(taken);
      slot = (slot + 1) & this.mask;
    }
  }

  /**
   * Reads what adding so many states with these hashes, one after the other, will have to read, so that the processor waits
   * for all of it at once. What it returns means nothing; it keeps the reads from being left out.
   */
  prefetch(hashes: Uint32Array, states: number): number {
    const { width, mask, slots, ahead, states: words } = this;
    let sum = 0;
    for (let i = 0; i < states; i++) ahead[i] = slots[(hashes[i] ?? 0) & mask] ?? 0;
    for (let i = 0; i < states; i++) {
      const taken = ahead[i] ?? 0;
      if (taken !== 0) sum ^= words[numberIn(taken) * width] ?? 0;
    }
    return sum;
  }

  /** Reads a state, which is packed so. */
  read(number: number, packing: Packing, state: Uint16Array): void {
    packing.unpack(this.states, number * this.width, state);
  }

  parentOf(number: number): number {
    return this.parents[number] ?? NO_PARENT;
  }

  /** Memory of the table, the states and their parents, bytes. */
  get bytes(): number {
    return this.states.byteLength + this.parents.byteLength + this.slots.byteLength;
  }

  /** All states and parents in order, for a checkpoint. */
  dump(): { readonly states: Uint32Array; readonly parents: Uint32Array } {
    return { states: this.states.subarray(0, this.count * this.width), parents: this.parents.subarray(0, this.count) };
  }

  /** The store that {@link dump} was taken of. */
  static restored(width: number, states: Uint32Array, parents: Uint32Array): StateStore {
    const store = new StateStore(width);
    for (let i = 0; i < parents.length; i++) {
      store.add(states, i * width, hashOf(states, i * width, width), parents[i] ?? NO_PARENT);
    }
    return store;
  }

  /** Packs all states, which are packed in this way, so that one fits that does not. Returns the new way. */
  repack(from: Packing, unfit: Uint16Array): Packing {
    const { states, count } = this;
    const greatest = unfit.slice();
    const state = new Uint16Array(greatest.length);
    for (let number = 0; number < count; number++) {
      from.unpack(states, number * from.width, state);
      for (let at = 0; at < state.length; at++) greatest[at] = Math.max(greatest[at] ?? 0, state[at] ?? 0);
    }
    const to = Packing.for(from.kinds, greatest);
    this.states = new Uint32Array(this.parents.length * to.width);
    for (let number = 0; number < count; number++) {
      from.unpack(states, number * from.width, state);
      to.pack(state, this.states, number * to.width);
    }
    this.width = to.width;
    this.rehash(this.slots.length);
    return to;
  }

  private equals(number: number, words: Words, from: number): boolean {
    const at = number * this.width;
    for (let i = 0; i < this.width; i++) if (this.states[at + i] !== words[from + i]) return false;
    return true;
  }

  private grow(): void {
    // By half, not to twice: of tens of millions of states, what is free is memory that the next ones could have.
    const capacity = Math.ceil(this.parents.length * 1.5);
    const states = new Uint32Array(capacity * this.width);
    states.set(this.states);
    this.states = states;
    const parents = new Uint32Array(capacity);
    parents.set(this.parents);
    this.parents = parents;
  }

  private rehash(size: number): void {
    const { width, states } = this;
    const slots = new Uint32Array(size);
    const mask = size - 1;
    for (let number = 0; number < this.count; number++) {
      const h = hashOf(states, number * width, width);
      let slot = h & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = slotFor(h, number);
    }
    this.slots = slots;
    this.mask = mask;
  }
}

function slotFor(h: number, number: number): number {
  return (((h >>> TAG_SHIFT) << TAG_SHIFT) | (number + 1)) >>> 0;
}

function isTagOf(slot: number, h: number): boolean {
  return slot >>> TAG_SHIFT === h >>> TAG_SHIFT;
}

function numberIn(slot: number): number {
  return (slot & NUMBER_MASK) - 1;
}

/** Murmur3's mixing of the words of one state, which begins at `from`. */
export function hashOf(words: Words, from: number, width: number): number {
  let h = 0;
  for (let i = from; i < from + width; i++) {
    let k = Math.imul(words[i] ?? 0, 0xcc9e2d51);
    k = (k << 15) | (k >>> 17);
    h ^= Math.imul(k, 0x1b873593);
    h = (h << 13) | (h >>> 19);
    h = (Math.imul(h, 5) + 0xe6546b64) | 0;
  }
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
