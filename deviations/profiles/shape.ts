import type { Settings } from '../../core/index.js';

/*
 * What many known clients have in common. None looks whether an extension was answered before the old deadline.
 */

/** All but one: nothing granted late is released, no timer tells of the end, and the allowance is not rounded. */
export const ALL_KNOWN = ['drift-unrounded', 'late-grants-stay', 'no-alarm'] as const;

/** Every round, release and clean-up ends when all nodes have answered or timed out. */
export const WAITS_FOR_ALL = ['settles-with-all', 'release-awaits-all', 'awaits-whole-clean-up'] as const;

/** Nodes are asked, and released, one after the other. */
export const IN_TURN = ['asks-in-turn', 'releases-in-turn'] as const;

/** Pauses drawn uniformly between two numbers of ms. */
export function between(leastMs: number, mostMs: number): Pick<Settings, 'retryDelayUs' | 'retryJitterUs'> {
  return { retryDelayUs: 500 * (leastMs + mostMs), retryJitterUs: 500 * (mostMs - leastMs) };
}
