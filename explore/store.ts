/** A state, as so many words of 32 bits. */
export type Words = Uint32Array;

/** The state that has no parent. */
export const NO_PARENT = 0xffff_ffff;

const FIRST_CAPACITY = 1 << 12;

/**
 * The states that were met, each once, numbered in the order of meeting, with the state that each was first reached from.
 * An open-addressing table of numbers over one flat array of words: neither objects nor strings, so that tens of
 * millions fit.
 */
export class StateStore {
  readonly width: number;
  count = 0;
  private states: Uint32Array;
  private parents: Uint32Array;
  /** Number + 1 of the state in each slot; 0 for none. */
  private slots: Uint32Array;
  private mask: number;

  /** @param width - Words of a state. */
  constructor(width: number) {
    this.width = width;
    this.states = new Uint32Array(FIRST_CAPACITY * width);
    this.parents = new Uint32Array(FIRST_CAPACITY);
    this.slots = new Uint32Array(FIRST_CAPACITY * 2);
    this.mask = this.slots.length - 1;
  }

  /** Takes a state in. Its number if it is new, -1 if it was known. */
  add(state: Words, parent: number): number {
    let slot = hash(state, this.width) & this.mask;
    for (;;) {
      const taken = this.slots[slot] ?? 0;
      if (taken === 0) break;
      if (this.equals(taken - 1, state)) return -1;
      slot = (slot + 1) & this.mask;
    }
    const number = this.count++;
    if (number === this.parents.length) this.grow();
    this.states.set(state, number * this.width);
    this.parents[number] = parent;
    this.slots[slot] = number + 1;
    if (this.count * 2 > this.slots.length) this.rehash();
    return number;
  }

  /** The number of a state, -1 if it was never met. */
  find(state: Words): number {
    let slot = hash(state, this.width) & this.mask;
    for (;;) {
      const taken = this.slots[slot] ?? 0;
      if (taken === 0) return -1;
      if (this.equals(taken - 1, state)) return taken - 1;
      slot = (slot + 1) & this.mask;
    }
  }

  /** Copies a state out. */
  read(number: number, into: Words): void {
    const from = number * this.width;
    for (let i = 0; i < this.width; i++) into[i] = this.states[from + i] ?? 0;
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
      store.add(states.subarray(i * width, (i + 1) * width), parents[i] ?? NO_PARENT);
    }
    return store;
  }

  private equals(number: number, state: Words): boolean {
    const from = number * this.width;
    for (let i = 0; i < this.width; i++) if (this.states[from + i] !== state[i]) return false;
    return true;
  }

  private grow(): void {
    const states = new Uint32Array(this.states.length * 2);
    states.set(this.states);
    this.states = states;
    const parents = new Uint32Array(this.parents.length * 2);
    parents.set(this.parents);
    this.parents = parents;
  }

  private rehash(): void {
    this.slots = new Uint32Array(this.slots.length * 2);
    this.mask = this.slots.length - 1;
    const state = new Uint32Array(this.width);
    for (let number = 0; number < this.count; number++) {
      this.read(number, state);
      let slot = hash(state, this.width) & this.mask;
      while (this.slots[slot] !== 0) slot = (slot + 1) & this.mask;
      this.slots[slot] = number + 1;
    }
  }
}

/** Murmur3's mixing, word by word. */
function hash(state: Words, width: number): number {
  let h = 0;
  for (let i = 0; i < width; i++) {
    let k = Math.imul(state[i] ?? 0, 0xcc9e2d51);
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
