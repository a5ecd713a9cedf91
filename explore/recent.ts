import { hashOf } from './store.js';

/** How many are remembered. More would not fit into the cache of the processor. */
const PLACES = 1 << 16;
/** No packed state is all ones: one of nothing but zeros there is. */
const NO_STATE = 0xffff_ffff;

/** States of so many words that came of late, each in a place by its hash: who comes again need not be looked up. */
export class Recent {
  private readonly width: number;
  private readonly states: Uint32Array;

  constructor(width: number) {
    this.width = width;
    this.states = new Uint32Array(width * PLACES).fill(NO_STATE);
  }

  /** Whether a state is remembered; if not, it is from now on, in the place of another. */
  has(state: Uint32Array): boolean {
    const { states, width } = this;
    const at = ((hashOf(state, 0, width) >>> 8) & (PLACES - 1)) * width;
    let same = true;
    for (let i = 0; i < width; i++) {
      const word = state[i] ?? 0;
      if (states[at + i] === word) continue;
      same = false;
      states[at + i] = word;
    }
    return same;
  }
}
