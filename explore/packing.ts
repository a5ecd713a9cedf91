/** Bits of a word. */
const WORD = 32;
/** The numbers in a state are of 16 bits at most. */
const MOST_BITS = 16;

/**
 * How the numbers of a state are packed into words of 32 bits: each has as many bits as the numbers of its kind have needed
 * so far, and what is left over in the words. One bit of the last word is always free, so that no state is all ones.
 */
export class Packing {
  /** Words of a state. */
  readonly width: number;
  /** By kind of number: its bits. */
  readonly bits: readonly number[];
  /** By place in a state: the kind of the number there. */
  readonly kinds: readonly number[];
  /** By word: the first number in it; and one behind the last. */
  private readonly firsts: Uint8Array;
  /** By number: its place in its word, and the greatest that fits. */
  private readonly shifts: Uint8Array;
  private readonly mosts: Uint16Array;

  /**
   * @param kinds - By place in a state: of which kind the number there is, from 0.
   * @param bits - By kind: how many bits it has at least.
   */
  constructor(kinds: readonly number[], bits: readonly number[]) {
    this.kinds = kinds;
    const width = wordsFor(kinds, bits);
    const wide = [...bits];
    // Bits that are left over go to the kinds in turn: to pack all states again, because one number is too great, takes long.
    for (let grown = true; grown; ) {
      grown = false;
      for (const [kind, has] of wide.entries()) {
        if (has === MOST_BITS) continue;
        wide[kind] = has + 1;
        if (wordsFor(kinds, wide) === width) grown = true;
        else wide[kind] = has;
      }
    }
    this.width = width;
    this.bits = wide;
    this.firsts = new Uint8Array(width + 1).fill(kinds.length);
    this.shifts = new Uint8Array(kinds.length);
    this.mosts = new Uint16Array(kinds.length);
    let word = -1;
    place(kinds, wide, (at, in_, shift) => {
      if (in_ > word) this.firsts[in_] = at;
      word = in_;
      this.shifts[at] = shift;
      this.mosts[at] = 2 ** (wide[kinds[at] ?? 0] ?? 0) - 1;
    });
  }

  /** Writes a state to `words` from `from` on. `false` if one of its numbers is too great. */
  pack(state: Uint16Array, words: Uint32Array, from: number): boolean {
    const { firsts, shifts, mosts, width } = this;
    let at = 0;
    for (let word = 0; word < width; word++) {
      const end = firsts[word + 1] ?? 0;
      let packed = 0;
      for (; at < end; at++) {
        const value = state[at] ?? 0;
        if (value > (mosts[at] ?? 0)) return false;
        packed |= value << (shifts[at] ?? 0);
      }
      words[from + word] = packed;
    }
    return true;
  }

  /** Reads what {@link pack} has written. */
  unpack(words: Uint32Array, from: number, state: Uint16Array): void {
    const { firsts, shifts, mosts, width } = this;
    let at = 0;
    for (let word = 0; word < width; word++) {
      const end = firsts[word + 1] ?? 0;
      const packed = words[from + word] ?? 0;
      for (; at < end; at++) state[at] = (packed >>> (shifts[at] ?? 0)) & (mosts[at] ?? 0);
    }
  }

  /** For numbers as great as those of this state, place by place. */
  static for(kinds: readonly number[], greatest: Uint16Array): Packing {
    const bits = kinds.map(() => 1).slice(0, Math.max(...kinds) + 1);
    for (const [at, kind] of kinds.entries()) {
      bits[kind] = Math.max(bits[kind] ?? 1, WORD - Math.clz32(greatest[at] ?? 0));
    }
    return new Packing(kinds, bits);
  }
}

/** Puts each number into the word in hand, or the next where it does not fit. */
function place(
  kinds: readonly number[],
  bits: readonly number[],
  put: (at: number, word: number, shift: number) => void,
): number {
  let word = 0;
  let used = 0;
  for (const [at, kind] of kinds.entries()) {
    const has = bits[kind] ?? 0;
    if (used + has > WORD) {
      word++;
      used = 0;
    }
    put(at, word, used);
    used += has;
  }
  return word * WORD + used;
}

function wordsFor(kinds: readonly number[], bits: readonly number[]): number {
  return Math.ceil((place(kinds, bits, () => {}) + 1) / WORD);
}
