import { argumentsFor } from './arguments.js';
import type { Callable } from './callables.js';
import { injectedNames } from './classes.js';
import type { Given } from './given.js';
import type { Parameter } from './parameter.js';
import type { Program } from './program.js';
import { type Role, roleOf } from './roles.js';
import { selfIn } from './shapes.js';
import { unknownValue } from './unknown.js';

/* What a method is called on that a decorator has made of the work: what it reads of `this` is injected into classes elsewhere. */

/** What is given by its name alone, as it would be to a parameter. */
const BY_NAME: readonly Role[] = ['client', 'clients', 'redlock', 'logger'];

/** What stands before the name that a person would give it: `__redis`. */
const BEFORE_NAME = /^[_$]+(?=.)/;

/** Whether a file applies a decorator of its own: the classes that it decorates show how that is used. */
export function appliesOwnDecorator({ shapes, texts }: Pick<Program, 'shapes' | 'texts'>): boolean {
  const applied = new Set(texts.flatMap((text) => [...text.matchAll(/^[ \t]*@(\w+)/gm)].map(([, name]) => name)));
  return shapes.some(({ name, className }) => className === null && applied.has(name));
}

/** An instance of a class of which nothing is known but what a method reads of it. */
export function instanceFor(method: Callable, given: Given): object {
  const read = readBy(method);
  const known = new Map<string, unknown>();
  const partNamed = (name: string): unknown => {
    const field = read.find((it) => it.name === name);
    const value = partFor(field ?? { ...NOTHING_READ, name }, given);
    known.set(name, value);
    return value;
  };
  return new Proxy(
    {},
    {
      get: (target, name) => {
        // Names that only the file has: `this[REDIS]`.
        const text = typeof name === 'symbol' ? name.description : name;
        if (text === undefined || name in target || /^(?:then|toJSON)$|^Symbol\./.test(text))
          return Reflect.get(target, name);
        return known.has(text) ? known.get(text) : partNamed(text);
      },
    },
  );
}

/** What methods read of `this`, by their texts: each run makes them again. */
const READ = new Map<string, readonly Parameter[]>();
const MOST_READ = 500;

function readBy(method: Callable): readonly Parameter[] {
  const text = Function.prototype.toString.call(method);
  const before = READ.get(text);
  if (before !== undefined) return before;
  if (READ.size >= MOST_READ) READ.clear();
  const read = selfIn(text);
  READ.set(text, read);
  return read;
}

/** Makes an object, with what a decorator has injected into those of its class. */
export function constructed(it: Callable, values: readonly unknown[], given: Given): object {
  const made = Reflect.construct(it, values) as object;
  for (const name of injectedNames(made))
    if (Reflect.get(made, name) === undefined) Reflect.set(made, name, partFor({ ...NOTHING_READ, name }, given));
  return made;
}

const NOTHING_READ: Omit<Parameter, 'name'> = { type: '', isOptional: false, isFunction: false, fields: [] };

function partFor(field: Parameter, given: Given): unknown {
  const name = field.name.replace(BEFORE_NAME, '');
  const own = given.make?.(`${name.charAt(0).toUpperCase()}${name.slice(1)}`);
  if (own !== undefined) return own;
  const meant: Parameter = { ...field, name, isOptional: false };
  if (!field.isFunction && BY_NAME.includes(roleOf(meant))) return argumentsFor([meant], given)[0];
  // What gives a client: `this.getRedis()`.
  const gives = /^(?:get|use|create)(\w+)$/.exec(name)?.[1];
  if (field.isFunction && gives !== undefined && roleOf({ ...NOTHING_READ, name: gives }) === 'client')
    return () => given.clients()[0];
  const like = given.makeLike?.(field);
  if (like !== undefined) return like;
  // Where nothing is asked of it, it may as well be missing.
  return field.fields.length > 0 ? unknownValue({}, 'a', name) : undefined;
}
