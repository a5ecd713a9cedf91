/* Which values are classes, and which calls decorate them. */

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

/** Whether a value is a class or its prototype, of which decorators are told. */
function isPrototype(it: unknown): boolean {
  return isClass(it) || (typeof it === 'object' && it !== null && Object.hasOwn(it, 'constructor'));
}
