/**
 * One value for the whole thread, whatever loads a module twice.
 * Jest empties what tests leave on the global object, so that neither the property nor the fields of the value can be deleted.
 *
 * @param name - Of the value.
 * @param make - Makes it, once.
 */
export function ofThread<T extends object>(name: string, make: () => T): T {
  const key = Symbol.for(`lockstep.libraries.${name}`);
  const known = (globalThis as unknown as Record<symbol, T | undefined>)[key];
  if (known !== undefined) return known;
  const value = Object.seal(make());
  Object.defineProperty(globalThis, key, { value });
  return value;
}
