import type { ProcessContext } from '../libraries/runtime/owner.js';
import { answerOf, beliefOf } from './held.js';
import { Terms } from './terms.js';
import { isUnknown } from './unknown.js';
import type { Entered } from './work.js';

/**
 * Finds the object by which the work learns whether the lock is held: an argument of the work, a property that the file has added to the
 * request, or an exported function that answers yes only in the asynchronous context of the work. Without one of these, returns the
 * first argument.
 *
 * @param beside - The functions of the file.
 */
export function lockOfWork(
  { given, handed, added, inContext }: Entered,
  beside: Readonly<Record<string, unknown>>,
  process: ProcessContext,
): unknown {
  const own = given.filter((it) => !handed.includes(it as object));
  const says = (it: unknown): boolean => !isUnknown(it) && beliefOf({ result: it, of: {}, process }, false) !== null;
  const told = [...own, ...added].find(says);
  if (told !== undefined || own.some((it) => typeof it === 'object' && it !== null)) return told ?? given[0];
  const saysHeld = (name: string): boolean => answers(beside, name);
  const name = Object.keys(beside).find((it) => inContext(() => saysHeld(it)) && !saysHeld(it));
  return name === undefined ? given[0] : { isHeld: () => inContext(() => saysHeld(name)) };
}

/** What a leader in a process tells of its terms, and what it hands over with them that says by the clock whether they last. */
export function termsOf(process: ProcessContext): Terms {
  return new Terms((told) => {
    const says = told.map((it) => (isUnknown(it) ? null : beliefOf({ result: it, of: {}, process }, false)));
    return says.find((it) => it !== null) ?? null;
  });
}

/** Whether a function of the file answers yes. One that throws does not. */
function answers(beside: Readonly<Record<string, unknown>>, name: string): boolean {
  try {
    return answerOf(beside, name) === true;
  } catch {
    return false;
  }
}
