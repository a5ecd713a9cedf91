import { argumentsFor, type Given } from './arguments.js';
import type { Callable, Shapes } from './callables.js';
import { responseOf } from './response.js';

/** Work that has begun under a lock. */
export interface Entered {
  /** What the work was handed. */
  readonly given: readonly unknown[];
  /** Ends the work, with an error if there is one, and gives what comes of the call that runs it. */
  leave(error?: Error): Promise<unknown>;
}

/** A call that has returned nothing may begin its work so much later, ms of simulated time. */
const LATER_MS = 30_000;

/**
 * Hands a lock work, and waits until it is begun.
 *
 * @param call - Calls the function that runs the work.
 * @param type - That of the work: it returns what this says.
 * @returns `null` where the work is refused.
 */
export async function enter(
  shapes: Shapes,
  call: (given: Given) => unknown,
  base: Given,
  type: string,
): Promise<Entered | null> {
  const response = responseOf();
  const { work, begun, leave } = workOf(type);
  const descriptor: PropertyDescriptor = { value: work, writable: true, configurable: true, enumerable: false };
  const handed = { ...base, work, response: response.it, descriptor };
  let isSilent = false;
  const done = (async () => {
    const returned = call(handed);
    isSilent = returned === undefined;
    const decorated = decoratedBy(await returned, descriptor, work);
    if (decorated === null) return returned;
    // A wrapper gives a function that does the work.
    const { parameters } = shapes.of(decorated, '');
    return await decorated.apply({}, argumentsFor(parameters, handed));
  })();
  done.catch(() => {});
  const over = done.then(async () => {
    if (isSilent) await Promise.race([response.ended, new Promise((resolve) => setTimeout(resolve, LATER_MS))]);
    return null;
  });
  over.catch(() => {});
  const given = await Promise.race([begun, over]);
  if (given === null) return null;
  return {
    given,
    leave: async (error) => {
      leave(error);
      response.end();
      return done;
    },
  };
}

interface Work {
  readonly work: Callable;
  readonly begun: Promise<readonly unknown[]>;
  readonly leave: (error?: Error) => void;
}

function workOf(type: string): Work {
  let enters: (given: readonly unknown[]) => void = () => {};
  let refuses: (error: Error) => void = () => {};
  let leaves: (error?: Error) => void = () => {};
  const begun = new Promise<readonly unknown[]>((resolve, reject) => {
    enters = resolve;
    refuses = reject;
  });
  begun.catch(() => {});
  const ended = new Promise<unknown>((resolve, reject) => {
    leaves = (error) => (error === undefined ? resolve(resultFor(type)) : reject(error));
  });
  ended.catch(() => {});
  const work = (...given: readonly unknown[]): Promise<unknown> | undefined => {
    // Who hands an error on does not begin: `next(error)`.
    if (given.length === 1 && given[0] instanceof Error) {
      refuses(given[0]);
      return undefined;
    }
    enters(given);
    return ended;
  };
  return { work, begun, leave: (error) => leaves(error) };
}

/** What a wrapper or a decorator has made of the work; `null` where it has made nothing. */
function decoratedBy(result: unknown, { value }: PropertyDescriptor, work: Callable): Callable | null {
  if (typeof result === 'function') return result as Callable;
  const made: unknown = (result as PropertyDescriptor | null | undefined)?.value ?? value;
  return typeof made === 'function' && made !== work ? (made as Callable) : null;
}

/** What the work returns, as its type wants it: some text where that says nothing. */
function resultFor(type: string): unknown {
  const [, kind] = /=>\s*(?:Promise(?:Like)?<\s*)?(\w+)/.exec(type) ?? [];
  return kind === 'number' ? 1 : kind === 'boolean' ? true : kind === 'void' ? undefined : 'done';
}
