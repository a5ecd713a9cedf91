import { EventEmitter } from 'node:events';
import { isClass } from './classes.js';
import { handlerOf } from './hooks.js';
import { type Modes, modesIn } from './modes.js';
import type { Parameter } from './parameter.js';
import type { Program } from './program.js';
import { readSource, type Shape } from './shapes.js';
import { isUnknown } from './unknown.js';

/** Something that can be called. */
export type Callable = (...given: readonly unknown[]) => unknown;

/** Whether it is written with `async`. */
export function isAsync(it: Callable): boolean {
  return Object.prototype.toString.call(it) === '[object AsyncFunction]';
}

/** How functions of the lock's author look, found by what they are at run time. */
export class Shapes {
  private readonly known: readonly Shape[];
  /** By which texts the file tells readers from writers. */
  readonly modes: Modes | null;
  private readonly read = new Map<string, Shape>();
  /** The same by the functions themselves, of which the text is long. */
  private readonly asked = new WeakMap<Callable, Map<string, Shape>>();

  constructor(program: Program) {
    this.known = program.shapes;
    this.modes = modesIn(program.sources);
  }

  /** Whether a class of the file has this name. */
  hasClass(name: string): boolean {
    return name !== '' && this.known.some(({ className }) => className === name);
  }

  /** @param name - Where it was found. */
  of(it: Callable, name: string): Shape {
    const known = this.asked.get(it) ?? new Map<string, Shape>();
    const shape = known.get(name) ?? this.found(it, name);
    this.asked.set(it, known.set(name, shape));
    return shape;
  }

  private found(it: Callable, name: string): Shape {
    const handler = handlerOf(it);
    if (handler !== undefined) return this.of(handler, name);
    const text = Function.prototype.toString.call(it);
    const key = `${name} ${text}`;
    const before = this.read.get(key);
    if (before !== undefined) return before;
    const base: unknown = Object.getPrototypeOf(it);
    // A class without a constructor is made as the one that it extends.
    if (isClass(it) && isClass(base) && !/\bconstructor\s*\(/.test(text)) return this.of(base, base.name);
    const made = this.typed(this.fromText(text, name, it), isClass(it) ? it.name : name, it.name);
    this.read.set(key, made);
    return made;
  }

  private fromText(text: string, name: string, it: Callable): Shape {
    const outermost = outermostIn(text);
    if (outermost !== null) return { ...outermost, name };
    const parameters = Array.from(
      { length: it.length },
      (_, i): Parameter => ({ name: `p${i}`, type: '', isOptional: false, isFunction: false, fields: [] }),
    );
    return { name, parameters, where: '', className: null, text };
  }

  /** The same as it is written in the file, with types. */
  private typed(made: Shape, ...names: readonly string[]): Shape {
    // What a decorator has made of a method hands on what that takes.
    const handsOn = made.parameters.at(-1)?.isRest === true;
    const method = handsOn ? this.known.find((it) => it.className !== null && names.includes(it.name)) : undefined;
    if (method !== undefined && method.parameters.length > made.parameters.length - 1) return method;
    const like = this.known.filter((it) => it.parameters.length === made.parameters.length);
    const named = like.filter(({ name }) => names.includes(name));
    const same = (it: Shape): boolean => it.parameters.every((p, i) => p.name === made.parameters[i]?.name);
    const alike = made.parameters.length > 0 ? like.filter(same) : [];
    // Many functions without a name have one parameter of the same name.
    const reads = ({ parameters }: Shape): boolean =>
      made.parameters.every(({ fields }, i) =>
        fields.every(({ name }) => parameters[i]?.fields.some((it) => it.name === name)),
      );
    const ofName = named.filter(same);
    return ofName.find(reads) ?? ofName[0] ?? alike.find(reads) ?? alike[0] ?? named[0] ?? made;
  }
}

/** Texts that were parsed before: each run makes the functions of a file again. */
const known = new Map<string, Shape | null>();
const MOST_KNOWN = 2_000;

/** The function or class of which this is the text (`toString`); `null` for what is native. */
function outermostIn(text: string): Shape | null {
  const before = known.get(text);
  if (before !== undefined) return before;
  const shape = parsed(text);
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(text, shape);
  return shape;
}

function parsed(text: string): Shape | null {
  // Outside of its class, a method with private names is no syntax.
  const open = text.replace(/#(?=[\w$])/g, '_');
  for (const form of [`(${text})`, `({ ${text} })`, `({ async ${text} })`, `({ ${open} })`, `({ async ${open} })`]) {
    try {
      const [outermost] = readSource(form, 'code.js').shapes;
      if (outermost !== undefined) return outermost;
    } catch {
      // Another form.
    }
  }
  return null;
}

/** What comes with Node is no part of a lock. */
const NOT_ITS_OWN: ReadonlySet<object> = new Set([
  Object.prototype,
  Function.prototype,
  EventEmitter,
  EventEmitter.prototype,
  Error,
  Error.prototype,
]);

/** The names of all that a value has of its author. */
export function membersOf(value: object): Set<string> {
  const found = new Set<string>();
  for (let at: object | null = value; at !== null && !NOT_ITS_OWN.has(at); at = Object.getPrototypeOf(at))
    for (const name of Object.getOwnPropertyNames(at)) if (name !== 'constructor') found.add(name);
  return found;
}

/** What can be called of a value: itself, or its methods; what it was handed is none of these. */
export function methodsOf(value: unknown): Map<string, Callable> {
  const found = new Map<string, Callable>();
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return found;
  for (const name of membersOf(value)) {
    if (typeof value === 'function' && ['length', 'name', 'prototype'].includes(name)) continue;
    const own = descriptorOf(value, name);
    if (typeof own?.value === 'function' && !isUnknown(own.value)) found.set(name, own.value as Callable);
  }
  return found;
}

function descriptorOf(value: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = value; at !== null; at = Object.getPrototypeOf(at)) {
    const own = Object.getOwnPropertyDescriptor(at, name);
    if (own !== undefined) return own;
  }
  return undefined;
}
