import { randomFillSync } from 'node:crypto';
import type { Chance, Token } from '../core/index.js';

const TOKEN_BYTES = 16;
const DRAW_BYTES = TOKEN_BYTES + 4;

// One call to the system for many tokens: it costs more than everything else in an acquisition's first step.
const pool = Buffer.allocUnsafe(DRAW_BYTES * 256);
let used = pool.length;

/** A token of 128 random bits that nobody ever had, and the jitter of one attempt. */
export function drawChance(): Chance {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const token = pool.toString('hex', used, used + TOKEN_BYTES) as Token;
  const jitterPpm = Math.floor((pool.readUInt32LE(used + TOKEN_BYTES) / 2 ** 32) * 1_000_000);
  used += DRAW_BYTES;
  return { token, jitterPpm };
}

/** What is left of the pool is not used: for a process that begins in the memory of another. */
export function discardDraws(): void {
  used = pool.length;
}
