/* Which values are classes, which calls decorate them, and what is injected into them. */

/** Whether it is made with `new`: a class, or a function that has methods. */
export function isClass(it: unknown): it is (...given: readonly unknown[]) => unknown {
  if (typeof it !== 'function') return false;
  if (/^class\b/.test(Function.prototype.toString.call(it))) return true;
  const methods: unknown = Reflect.get(it, 'prototype');
  return typeof methods === 'object' && methods !== null && Object.keys(methods).length > 0;
}

/** Whether a call is that of a decorator: of a class, or of a part of one. */
export function decorates(told: readonly unknown[]): boolean {
  const [what, part] = told;
  if (told.length === 1) return isClass(what);
  return (
    told.length === 3 &&
    isPrototype(what) &&
    (typeof part === 'string' || part === undefined) &&
    !Array.isArray(told[2])
  );
}

/** By prototype: the names of properties that a decorator has injected into its instances. */
const INJECTED = new WeakMap<object, readonly string[]>();
const INJECTS = /(?:^|\.)Inject\w*$/;

/** Notes a property that a call injects into the instances of a class: `Inject(REDIS)(target, '__redis')`. */
export function noteInjected(path: string, [what, name]: readonly unknown[]): void {
  if (!INJECTS.test(path) || typeof name !== 'string' || !isPrototype(what)) return;
  INJECTED.set(what as object, [...(INJECTED.get(what as object) ?? []), name]);
}

/** The names of the properties that decorators have injected into an object. */
export function injectedNames(made: object): readonly string[] {
  const names: string[] = [];
  for (let at: unknown = Object.getPrototypeOf(made); at !== null; at = Object.getPrototypeOf(at))
    names.push(...(INJECTED.get(at as object) ?? []));
  return names;
}

/** Whether a value is a class or its prototype, of which decorators are told. */
function isPrototype(it: unknown): boolean {
  return isClass(it) || (typeof it === 'object' && it !== null && Object.hasOwn(it, 'constructor'));
}
