import { unknownValue } from './unknown.js';

/*
 * Schemas that check what a request or the environment holds. The values of an audit are not those that they ask for: what does not pass
 * is taken to pass, as it is.
 */

/** Packages whose schemas have `parse` and `safeParse`. */
export const SCHEMAS: RegExp = /^(?:zod|zod\/v\d[\w-]*|@hono\/zod-openapi)$/;

type Check = (value: unknown, ...more: readonly unknown[]) => unknown;

/** What stands for each method of a schema that checks a value. */
const CHECKS: Readonly<Record<string, (check: Check) => Check>> = {
  parse:
    (check) =>
    (value, ...more) => {
      try {
        return check(value, ...more);
      } catch {
        return value;
      }
    },
  parseAsync:
    (check) =>
    async (value, ...more) =>
      Promise.resolve(check(value, ...more)).catch(() => value),
  safeParse:
    (check) =>
    (value, ...more) =>
      passing(check(value, ...more), value),
  safeParseAsync:
    (check) =>
    async (value, ...more) =>
      passing(await check(value, ...more), value),
};

function passing(result: unknown, value: unknown): unknown {
  return (result as { success?: unknown }).success === true ? result : { success: true, data: value ?? unknownValue() };
}

function isSchema(it: unknown): it is object {
  return typeof it === 'object' && it !== null && '_def' in it;
}

/** A schema, or a function that gives schemas, whose checks all pass. */
function passed(it: unknown): unknown {
  if (typeof it === 'function')
    return new Proxy(it, {
      apply: (make, self: unknown, given: unknown[]) => passed(Reflect.apply(make as never, self, given)),
    });
  if (!isSchema(it)) return it;
  return new Proxy(it, {
    get: (schema, name) => {
      const part: unknown = Reflect.get(schema, name);
      if (typeof part !== 'function') return part;
      const stand = typeof name === 'string' ? CHECKS[name] : undefined;
      const bound = part.bind(schema) as Check;
      return stand === undefined ? passed(bound) : stand(bound);
    },
  });
}

/** A package, or a part of one, whose schemas let everything pass. */
export function withPassing(names: object): object {
  return new Proxy(
    {},
    {
      has: (_, name) => name in names,
      get: (_, name) => {
        const part: unknown = Reflect.get(names, name);
        const isPart = typeof part === 'object' && part !== null && !isSchema(part);
        return isPart ? withPassing(part) : passed(part);
      },
    },
  );
}
