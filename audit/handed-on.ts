import { asPattern } from '../text/pattern.js';
import type { Parameter } from './parameter.js';
import { isAddress } from './roles.js';

/** A function, as far as it is looked at here. */
interface Calling {
  readonly name: string;
  readonly text: string;
  readonly parameters: readonly Parameter[];
}

/** What one function hands on to another that hands it on, too. */
const DEPTH = 2;

/**
 * The same functions, with what is known of parameters without a type because a function of the file that they are handed on to calls
 * them, or reads of them where a server is, or more of their fields than they do themselves.
 */
export function withHandedOn<T extends Calling>(shapes: readonly T[]): readonly T[] {
  let known = shapes;
  for (let depth = 0; depth < DEPTH; depth++) known = withOnce(known);
  return known;
}

function withOnce<T extends Calling>(shapes: readonly T[]): readonly T[] {
  const callers = shapes.filter(({ name, parameters }) => name !== '' && parameters.some((it) => it.isFunction));
  const isCalled = (text: string, parameter: string): boolean =>
    callers.some(({ name, parameters }) =>
      listsIn(text, name).some((list) =>
        list.split(',').some((it, i) => it.trim() === parameter && parameters[i]?.isFunction === true),
      ),
    );
  const readers = shapes.filter(({ name, parameters }) => name !== '' && isAddress(parameters.at(-1)?.fields ?? []));
  const readAs = (text: string, parameter: string): readonly Parameter[] =>
    readers.find(({ name }) => isLastOf(text, name, parameter))?.parameters.at(-1)?.fields ?? [];
  const users = shapes.filter(({ name, parameters }) => name !== '' && parameters.some((it) => it.fields.length > 0));
  const readBy = (text: string, parameter: string): readonly Parameter[] =>
    users.flatMap(({ name, parameters }) => {
      const [list = ''] = listsIn(text, name);
      return parameters[list.split(',').findIndex((it) => it.trim() === parameter)]?.fields ?? [];
    });
  const withKnown = (it: Parameter, { text }: Calling): Parameter => {
    if (it.type !== '' || it.isFunction || it.name === '') return it;
    if (isCalled(text, it.name)) return { ...it, isFunction: true };
    if (it.fields.length === 0) return { ...it, fields: readAs(text, it.name) };
    const more = readBy(text, it.name).filter(({ name }) => !it.fields.some((field) => field.name === name));
    return { ...it, fields: [...it.fields, ...more] };
  };
  return shapes.map((shape) => ({ ...shape, parameters: shape.parameters.map((it) => withKnown(it, shape)) }));
}

/** A call of a function, up to its arguments. */
function callOf(name: string): string {
  return String.raw`(?<![\w$])${asPattern(name)}\(`;
}

/** The arguments of each call of a function in a text. */
function listsIn(text: string, name: string): readonly string[] {
  if (!text.includes(`${name}(`)) return [];
  const calls = new RegExp(String.raw`${callOf(name)}([^()]*)\)`, 'g');
  return [...text.matchAll(calls)].map(([, list = '']) => list);
}

/** Whether something is the last argument of a call. */
function isLastOf(text: string, name: string, argument: string): boolean {
  return new RegExp(String.raw`${callOf(name)}[^;]*?,\s*${asPattern(argument)}\s*\)`).test(text);
}
