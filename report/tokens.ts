import type { TraceEvent } from '../sim/index.js';
import { numberOf } from './details.js';

const LETTERS = 26;

/** The tokens of a run with their names A, B, … in the order in which they are first sent. */
export function namesOf(trace: readonly TraceEvent[]): Map<number, string> {
  const names = new Map<number, string>();
  for (const event of trace) {
    if (event.kind !== 'send' && event.kind !== 'lost') continue;
    const token = numberOf(event, 'token');
    if (token !== 0 && !names.has(token)) names.set(token, lettersOf(names.size));
  }
  return names;
}

/** Names the tokens of a run. */
export function tokenNames(trace: readonly TraceEvent[]): (token: number) => string {
  const names = namesOf(trace);
  return (token) => names.get(token) ?? '?';
}

/** The name of the token that is sent as the `index`-th, from 0. */
export function lettersOf(index: number): string {
  const last = String.fromCharCode(65 + (index % LETTERS));
  return index < LETTERS ? last : lettersOf(Math.floor(index / LETTERS) - 1) + last;
}
