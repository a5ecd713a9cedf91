import { describe, expect, it } from 'vitest';
import { SMALL_WORLD } from './bounds.js';
import { playBothWays } from './testing/both-ways.js';

describe('a bounded world of two clients that try twice', () => {
  it('is what the lock and the node do without memory, in each of its transitions', () => {
    expect(playBothWays({ ...SMALL_WORLD, nodes: 1, ttl: 2, timeout: 1, retries: 1 })).toBe(210_274);
  });
});
