import { randomFillSync } from 'node:crypto';
import type { AttemptRandomness, Token } from '../../core/index.js';
import { type Clock, LocalClock } from './clock.js';

const TOKEN_BYTES = 16;
const DRAW_BYTES = TOKEN_BYTES + 4;

/** Draws many tokens in one call to the system: it costs more than everything else in an acquisition's first step. */
class RandomPool {
  readonly #pool: Buffer;
  #used: number;

  /** @param draws - How many are drawn in one go. */
  constructor(draws: number) {
    this.#pool = Buffer.allocUnsafe(DRAW_BYTES * draws);
    this.#used = this.#pool.length;
  }

  /** A token of 128 random bits that nobody ever had, and the jitter of one attempt. */
  draw(): AttemptRandomness {
    const pool = this.#pool;
    if (this.#used === pool.length) {
      randomFillSync(pool);
      this.#used = 0;
    }
    const at = this.#used;
    const token = pool.toString('hex', at, at + TOKEN_BYTES) as Token;
    const jitterPpm = Math.floor((pool.readUInt32LE(at + TOKEN_BYTES) / 2 ** 32) * 1_000_000);
    this.#used += DRAW_BYTES;
    return { token, jitterPpm };
  }
}

/** What the locks of one `Redlock` have in common. */
export interface LockRuntime {
  readonly clock: Clock;
  readonly chance: Pick<RandomPool, 'draw'>;
}

/**
 * A clock and a random source. Each `Redlock` has its own: simulated processes share what is at the top of modules, and must
 * have neither in common.
 */
export function newRuntime(draws: number = 256): LockRuntime {
  return { clock: new LocalClock(), chance: new RandomPool(draws) };
}
