import { RandomStreams } from '../sim/index.js';

const STREAMS = new RandomStreams('lockstep guests');
/** Streams of a process's later lives begin here. */
const LIFE = 1 << 16;

/** What random words are for. A module that keeps random bytes beyond a run, as nanoid does, shifts no number of `Math.random`. */
export const RandomPurpose = { bytes: 0, numbers: 1 } as const;

/** The random words of the processes of one run: the same in every run of a schedule. */
export class RandomWords {
  private readonly words = new Map<number, () => number>();

  /** The next word of a process in one of its lives. */
  next(process: number, life: number, purpose: (typeof RandomPurpose)[keyof typeof RandomPurpose]): number {
    const index = process + LIFE * life;
    const key = 2 * index + purpose;
    let next = this.words.get(key);
    if (next === undefined) {
      const stream = STREAMS.stream(index, purpose);
      next = () => stream.word();
      this.words.set(key, next);
    }
    return next();
  }
}
