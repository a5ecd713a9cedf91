import { isUnknown } from './unknown.js';

/*
 * Libraries of functions for lists and objects, which files use as they are. They ask what they are given whether it is a list, and what is
 * not known is none: they would find nothing in it, or count as far as it reads as a number.
 */

/** Their packages, whole or by function: `lodash/chunk`. */
const UTILITIES: RegExp =
  /^(?:lodash(?:-es)?|underscore|ramda|remeda|radash|rambda|es-toolkit|just-[\w-]+)(?:[/.][\w/.-]+)?$/;

/** What takes one list; that may follow a function or a number, as in Ramda. */
const TAKES_LIST =
  /^(?:chunk|splitEvery|cluster|compact|flat\w*|uniq\w*|sort\w*|order\w*|group\w*|key(?:By|Arrays?)|index(?:By|Of)|count(?:By)?|(?:flat|invoke)?map|each\w*|forEach\w*|filter|reject|reduce\w*|partition|some|every|any|all|find\w*|includes?|contains|sum\w*|mean\w*|average\w*|min(?:By)?|max(?:By)?|size|length|isEmpty|first|last|head|tail|initial|nth|take\w*|drop\w*|slice|pull\w*|remove|sample\w*|shuffle|reverse|pluck|toArray|fromPairs|zipObject\w*|objectify|fork|chain)$/i;
/** What takes several. */
const TAKES_LISTS = /^(?:concat|union\w*|diff(?:erence\w*)?|intersect\w*|xor\w*|zip|unzip|without)$/i;
/** What gives an object, or a part of it: of what is not known, that is as little known. */
const GIVES_SAME = /^(?:clone(?:Deep)?|pick\w*|omit\w*|defaults\w*|mapKeys|mapValues|invert)$/i;
/** What a library is called as a function: it begins a chain. */
const AS_FUNCTION = 'chain';

type AnyFunction = (...given: readonly unknown[]) => unknown;

/** The same arguments with lists of elements for what is not known. */
function withLists(name: string, given: readonly unknown[]): readonly unknown[] {
  const listOf = (it: unknown): unknown => (isUnknown(it) ? [...(it as Iterable<unknown>)] : it);
  if (TAKES_LISTS.test(name)) return given.map(listOf);
  if (!TAKES_LIST.test(name) || given.some((it) => Array.isArray(it))) return given;
  const first = given.findIndex(isUnknown);
  return given.map((it, i) => (i === first ? listOf(it) : it));
}

/** A function of one of these libraries, which may have others. */
function taking(name: string, it: AnyFunction): unknown {
  return new Proxy(it, {
    apply: (own, self, given: readonly unknown[]) =>
      GIVES_SAME.test(name) && isUnknown(given[0])
        ? given[0]
        : (Reflect.apply(own, self, withLists(name, given)) as unknown),
    get: (own, part) => {
      const value: unknown = Reflect.get(own, part);
      return typeof part === 'string' && typeof value === 'function' && !/^(?:prototype|constructor)$/.test(part)
        ? taking(part, value as AnyFunction)
        : value;
    },
  });
}

/** What a package gives by itself is called: `chunk` of `lodash/chunk`, of `lodash.chunk` and of `just-chunk`. */
function ownName(request: string): string {
  const [, name] = /^(?:[\w-]+[/.](?:.*\/)?|just-)([\w-]+)(?:\.[cm]?js)?$/.exec(request) ?? [];
  return name === undefined ? AS_FUNCTION : name.replaceAll('-', '');
}

/**
 * What a package of such functions exports, whose functions take what is not known for lists.
 *
 * @param request - How it is imported.
 */
export function takingLists<T>(request: string, exports: T): T {
  if (!UTILITIES.test(request)) return exports;
  const own = ownName(request);
  if (typeof exports === 'function') return taking(own, exports as unknown as AnyFunction) as T;
  const named = Object.entries(exports as object).map(([name, it]) => [
    name,
    typeof it === 'function' ? taking(name === 'default' || name === 'module.exports' ? own : name, it) : it,
  ]);
  return Object.fromEntries(named) as T;
}
