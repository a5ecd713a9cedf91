import { AsyncResource } from 'node:async_hooks';
import { argumentsFor } from './arguments.js';
import type { Target } from './call.js';
import type { Callable, Shapes } from './callables.js';
import type { Given } from './given.js';
import { responseOf } from './response.js';
import { roleOf } from './roles.js';

/** Work that has begun under a lock. */
export interface Entered {
  /** What the work was handed. */
  readonly given: readonly unknown[];
  /** What the call that runs it was handed: a request, say. */
  readonly handed: readonly unknown[];
  /** Properties that the file has added to these before the work began. */
  readonly added: readonly unknown[];
  /** Calls a function in the asynchronous context of the work. */
  readonly inContext: <T>(ask: () => T) => T;
  /** Disconnects the client of the request; `null` without a request. */
  readonly hangUp: (() => void) | null;
  /** Ends the work, with an error if there is one, and gives what comes of the call that runs it. */
  leave(error?: Error): Promise<unknown>;
}

/** A call that has returned nothing, or how to stop what it has begun, may begin its work so much later, ms of simulated time. */
const LATER_MS = 30_000;

/**
 * Hands a lock work, and waits until it is begun.
 *
 * @param target - The function that runs the work.
 * @returns `null` where the work is refused.
 */
export async function enter(shapes: Shapes, target: Target, base: Given): Promise<Entered | null> {
  const response = responseOf();
  // It returns what its type says.
  const { work, begun, leave } = workOf(target.parameters.find((it) => roleOf(it) === 'work')?.type ?? '');
  const descriptor: PropertyDescriptor = { value: work, writable: true, configurable: true, enumerable: false };
  const given: Given = { ...base, work, response: response.it, descriptor };
  const handed = new Map<object, readonly string[]>();
  const argumentsOf = (parameters: Target['parameters']): unknown[] => {
    const values = argumentsFor(parameters, given);
    for (const it of values) if (typeof it === 'object' && it !== null) handed.set(it, Object.keys(it));
    return values;
  };
  let isSilent = false;
  let stop = (): unknown => undefined;
  const done = (async () => {
    const returned = target.it.apply(target.owner, argumentsOf(target.parameters));
    const result = await returned;
    const stops = stopIn(result);
    isSilent = returned === undefined || stops !== null;
    stop = stops ?? stop;
    const decorated = stops === null ? decoratedBy(result, descriptor, work) : null;
    if (decorated === null) return result;
    // A wrapper gives a function that does the work.
    return await decorated.apply(given.instance?.(decorated) ?? {}, argumentsOf(shapes.of(decorated, '').parameters));
  })();
  done.catch(() => {});
  const over = done.then(async () => {
    if (isSilent) await Promise.race([response.ended, new Promise((resolve) => setTimeout(resolve, LATER_MS))]);
    return null;
  });
  over.catch(() => {});
  const entered = await Promise.race([begun, over]);
  if (entered === null) {
    stop();
    return null;
  }
  const isNew = (it: object, name: string): boolean => handed.get(it)?.includes(name) === false;
  const added = [...handed.keys()].flatMap((it) =>
    Object.keys(it).flatMap((name) => (isNew(it, name) ? [Reflect.get(it, name) as unknown] : [])),
  );
  return {
    ...entered,
    handed: [...handed.keys()],
    added: [...added, ...Object.values(response.locals)],
    hangUp: handed.has(response.it as object) ? response.hangUp : null,
    leave: async (error) => {
      leave(error);
      response.end();
      stop();
      return done;
    },
  };
}

interface Work {
  readonly work: Callable;
  readonly begun: Promise<Pick<Entered, 'given' | 'inContext'>>;
  readonly leave: (error?: Error) => void;
}

function workOf(type: string): Work {
  let enters: (work: Pick<Entered, 'given' | 'inContext'>) => void = () => {};
  let refuses: (error: Error) => void = () => {};
  let leaves: (error?: Error) => void = () => {};
  const begun = new Promise<Pick<Entered, 'given' | 'inContext'>>((resolve, reject) => {
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
    enters({ given, inContext: AsyncResource.bind((ask) => ask()) as Entered['inContext'] });
    return ended;
  };
  return { work, begun, leave: (error) => leaves(error) };
}

/** What a function does that ends timers. */
const ENDS_TIMERS = /\bclear(?:Timeout|Interval)\(|\bstop(?:ped|ping)?\s*=|\.(?:abort|stop|cancel)\(/;

/** How a schedule is stopped that a call has begun: by the function that it returns, or a method of what it returns; `null` for none. */
function stopIn(result: unknown): (() => unknown) | null {
  if (typeof result === 'function') {
    const text = String(result);
    // What awaits something may be what does the work.
    const isStop = /^(?:stop|cancel)$/.test(result.name) || !/\bawait\b/.test(text);
    return result.length === 0 && ENDS_TIMERS.test(text) && isStop ? (result as () => unknown) : null;
  }
  if (typeof result !== 'object' || result === null) return null;
  const name = ['stop', 'cancel'].find((it) => typeof Reflect.get(result, it) === 'function');
  return name === undefined ? null : () => Reflect.apply(Reflect.get(result, name), result, []);
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
