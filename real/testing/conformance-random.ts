import type { Answer, Operation } from '../../core/index.js';
import type { KeyState, RandomStream } from '../../sim/index.js';
import type { Act, Target, Variant } from './conformance-target.js';

/** The keys that random commands are about. */
export const KEYS: readonly string[] = ['a', 'b', 'c', 'd'];
const TOKENS = 3;
const OPERATIONS: readonly [Operation, ...Operation[]] = ['acquire', 'acquire', 'extend', 'extend', 'release'];
type Variants = readonly [Variant, ...Variant[]];
/** What the lock itself sends. */
export const OWN: Variants = ['wire', 'text'];
/** What clients of every policy send. */
export const ALL: Variants = [
  'wire',
  'wire',
  'wire',
  'text',
  'no-nx',
  'own-or-missing',
  'heals',
  'extend-any',
  'plain-del',
];

/** A random command; `ttlMs` draws its TTL. */
export function drawAct(stream: RandomStream, variants: Variants, ttlMs: () => number): Act {
  const operation = stream.pick(OPERATIONS);
  const first = stream.below(KEYS.length);
  const count = Math.max(1, stream.below(4));
  return {
    operation,
    variant: stream.pick(variants),
    token: 1 + stream.below(TOKENS),
    keys: Array.from({ length: count }, (_, i) => KEYS[(first + i) % KEYS.length] ?? ''),
    ttlMs: operation === 'release' ? 0 : ttlMs(),
  };
}

/** A command, or time that passes in ms. */
export type Move = Act | number;

/**
 * A random sequence. TTLs end in half thousands of seconds and time passes in whole ones, so that nothing depends on the
 * milliseconds that the test itself takes.
 */
export function drawMoves(stream: RandomStream, variants: Variants, length: number): Move[] {
  const ttlMs = (): number => 500_000 + 1_000_000 * stream.below(6);
  return Array.from({ length }, () => {
    return stream.below(8) === 0 ? 1_000_000 * (1 + stream.below(3)) : drawAct(stream, variants, ttlMs);
  });
}

/** What a sequence came to. */
export interface Course {
  readonly answers: readonly (Answer | null)[];
  readonly keys: readonly (KeyState | null)[];
}

/** Plays a sequence and leaves no key behind; `pipelined` sends it all at once, for what keeps commands in order. */
export async function playMoves(moves: readonly Move[], target: Target, pipelined: boolean): Promise<Course> {
  const answers: Promise<Answer | null>[] = [];
  for (const move of moves) {
    const answer = make(move, target);
    answers.push(answer);
    if (!pipelined) await answer;
  }
  const keys = target.state(KEYS);
  if (!pipelined) await keys;
  const removal = target.perform({ operation: 'release', variant: 'plain-del', token: 1, keys: KEYS, ttlMs: 0 });
  const course = { answers: await Promise.all(answers), keys: (await keys).map(rounded) };
  await removal;
  return course;
}

async function make(move: Move, target: Target): Promise<Answer | null> {
  if (typeof move !== 'number') return target.perform(move);
  await target.age(KEYS, move);
  return null;
}

/** TTLs of random sequences differ by much more than a test takes. */
function rounded(key: KeyState | null): KeyState | null {
  return key === null ? null : { token: key.token, ttlMs: Math.round(key.ttlMs / 100_000) * 100_000 };
}
