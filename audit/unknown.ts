const IS_UNKNOWN = Symbol('unknown');

/** Is told when a function that stands for what is not known is called. */
export const calls: { heard: (() => void) | null } = { heard: null };

/** Whether it stands for what is not known. */
export function isUnknown(value: unknown): boolean {
  return typeof value === 'function' && Reflect.get(value, IS_UNKNOWN) === true;
}

/**
 * Stands for what little is known of: an object of which every part is another, that reads as a short text, and has one
 * element, so that what is done for each is done.
 *
 * @param known - Parts that are known.
 * @param text - What it reads as. Default `a`.
 */
export function unknownValue(known: Readonly<Record<string, unknown>> = {}, text: string = 'a'): unknown {
  const target = (): unknown => {
    calls.heard?.();
    return made;
  };
  const made: unknown = new Proxy(target, {
    get: (_, name) => {
      if (name === 'then') return undefined;
      if (name === IS_UNKNOWN) return true;
      if (typeof name === 'string' && Object.hasOwn(known, name)) return known[name];
      if (name === Symbol.toPrimitive) return (hint: string) => (hint === 'number' ? 1 : text);
      if (name === 'toString' || name === 'toJSON') return () => text;
      if (name === Symbol.iterator) return () => [unknownValue({}, text)].values();
      return unknownValue({}, text);
    },
    set: () => true,
  });
  return made;
}

/** An object of which some parts are known, and every other one stands for what is not known. */
export function partlyKnown(known: Readonly<Record<string, unknown>>, text: string): unknown {
  return new Proxy(
    { ...known },
    {
      get: (target, name) => {
        if (typeof name === 'symbol' || name === 'then' || name === 'toJSON' || Object.hasOwn(target, name))
          return Reflect.get(target, name);
        return name in Object.prototype ? () => text : unknownValue({}, text);
      },
    },
  );
}
