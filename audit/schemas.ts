import { isUnknown, unknownValue } from './unknown.js';

/*
 * Schemas that check what a request or the environment holds. The values of an audit are not those that they ask for: what does not pass
 * is taken to pass, as it is.
 */

/** Packages whose schemas have `parse` and `safeParse`. */
export const SCHEMAS: RegExp = /^(?:zod|zod\/v\d[\w-]*|@hono\/zod-openapi)$/;

type Check = (value: unknown, ...more: readonly unknown[]) => unknown;

/** What stands for each method of a schema that checks a value. */
const CHECKS: Readonly<Record<string, (check: Check, schema: object) => Check>> = {
  parse:
    (check, schema) =>
    (value, ...more) => {
      try {
        return check(value, ...more);
      } catch {
        return partsOf(schema, value);
      }
    },
  parseAsync:
    (check, schema) =>
    async (value, ...more) =>
      Promise.resolve(check(value, ...more)).catch(() => partsOf(schema, value)),
  safeParse:
    (check, schema) =>
    (value, ...more) =>
      passing(check(value, ...more), partsOf(schema, value)),
  safeParseAsync:
    (check, schema) =>
    async (value, ...more) =>
      passing(await check(value, ...more), partsOf(schema, value)),
};

function passing(result: unknown, value: unknown): unknown {
  return (result as { success?: unknown }).success === true ? result : { success: true, data: value ?? unknownValue() };
}

/** What a schema for an object makes of each property that passes, and the others as they are. */
function partsOf(schema: object, value: unknown): unknown {
  const shape: unknown = Reflect.get(schema, 'shape');
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject || isUnknown(value) || typeof shape !== 'object' || shape === null) return value;
  const parts = Object.entries(
    shape as Record<string, { safeParse(it: unknown): { success: boolean; data?: unknown } }>,
  );
  const made = parts.map(([name, part]) => {
    const own: unknown = Reflect.get(value, name);
    const { success, data } = part.safeParse(own);
    return [name, success ? data : own];
  });
  return { ...value, ...Object.fromEntries(made) };
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
      return stand === undefined ? passed(bound) : stand(bound, schema);
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
