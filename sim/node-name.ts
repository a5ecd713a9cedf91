import { MOST_NODES } from '../core/index.js';

const NAMES: readonly string[] = Array.from({ length: MOST_NODES }, (_, index) => `n${index}`);

/** Nodes are called `n0`, `n1`, … */
export function nodeName(index: number): string {
  return NAMES[index] ?? `n${index}`;
}

const LETTER_N = 110;
const DIGIT_0 = 48;

/** Index of the node with this name, or -1. Without a pattern, which would cost more than what a fault does. */
export function nodeIndex(name: string): number {
  if (name.length < 2 || name.charCodeAt(0) !== LETTER_N) return -1;
  let index = 0;
  for (let i = 1; i < name.length; i++) {
    const digit = name.charCodeAt(i) - DIGIT_0;
    if (digit < 0 || digit > 9) return -1;
    index = 10 * index + digit;
  }
  return index;
}
