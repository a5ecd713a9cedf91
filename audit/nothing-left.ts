import { current } from '../libraries/runtime/owner.js';
import { IS_COUNT } from './value-names.js';

/* What a function gives of which nothing is known, when it has been called so often that a loop has to end. */

/** By acquisition, and by the name of a function: how often that was called. */
const COUNTS = new WeakMap<object, Map<string, number>>();

/**
 * What a call returns: `made`, after too many calls 0 for a number, else an empty list, and then `null`. A loop until nothing is left ends
 * at one of them; one that does not await it (`while (term.isCurrent())`), at `null`. What waits for messages waits on.
 *
 * @param most - More calls of this name are too many.
 */
export function leftOf(path: string, made: unknown, most: number): unknown {
  // What is called as a file is loaded, or something is made, is so without an acquisition.
  const task = current.owner?.task ?? current.owner;
  if (task === null) return made;
  const counts = COUNTS.get(task) ?? new Map<string, number>();
  COUNTS.set(task, counts);
  const times = (counts.get(path) ?? 0) + 1;
  counts.set(path, times);
  const rounds = times / most;
  if (rounds <= 1) return made;
  if (typeof made === 'number') return 0;
  return rounds <= 2 ? EMPTY : RECEIVES.test(path) ? new Promise(() => {}) : null;
}

/** What waits for a message, by its name: none comes any more. */
const RECEIVES = /(?:^|\.)(?:receive|poll|pull)[^.]*$/i;

/** Nothing is left: a list without elements, of which more can be asked, as of a query that is being made. */
const EMPTY: readonly unknown[] = new Proxy([], {
  get: (list, name) => {
    if (name in list || typeof name === 'symbol' || name === 'then') return Reflect.get(list, name) as unknown;
    return name === 'rows' ? [] : IS_COUNT.test(name) ? 0 : EMPTY_PART;
  },
});

/** A part of it, which may be called, or be a list itself. */
const EMPTY_PART: unknown = new Proxy((): unknown => EMPTY, { get: (_, name) => Reflect.get(EMPTY, name) as unknown });
