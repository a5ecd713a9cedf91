import { type LuaFunction, type LuaStack, RedisError, TYPE } from './stack.js';

/** A library of functions, as `FUNCTION LOAD` takes it. */
export interface Library {
  readonly name: string;
  /** With its first line. */
  readonly code: string;
  /** What Lua compiles. */
  readonly body: string;
  /** By name. */
  readonly functions: ReadonlyMap<string, LibraryFunction>;
}

/** A function that `FCALL` calls. */
export interface LibraryFunction {
  readonly name: string;
  readonly description: string | null;
  /** In the order in which Redis says them. */
  readonly flags: readonly string[];
}

/** What a library has registered while it was loaded, with where Lua keeps each function. */
export type Registered = Map<string, LibraryFunction & { readonly ref: number }>;

/** What may be asked for a script or a function, in the order of Redis. */
export const SCRIPT_FLAGS: readonly string[] = [
  'no-writes',
  'allow-oom',
  'allow-stale',
  'no-cluster',
  'allow-cross-slot-keys',
];

/** The name of a library or a function. */
export const NAME: RegExp = /^[a-z0-9_]+$/i;
/** What is said of others, of functions too. */
export const BAD_NAME =
  'Library names can only contain letters, numbers, or underscores(_) and must be at least one character long';

const REGISTRY = -10_000;

function wrong(text: string): RedisError {
  return new RedisError(`ERR ${text}`);
}

function textAt(stack: LuaStack, index: number, otherwise: string): string {
  const type = stack.type(index);
  if (type !== TYPE.string && type !== TYPE.number) throw wrong(otherwise);
  return stack.text(index);
}

function flagsAt(stack: LuaStack): string[] {
  const given: string[] = [];
  for (let place = 1; ; place++) {
    stack.getItem(-1, place);
    const type = stack.type(-1);
    const flag = type === TYPE.string || type === TYPE.number ? stack.text(-1).toLowerCase() : '';
    stack.pop();
    if (type === TYPE.nil) return SCRIPT_FLAGS.filter((it) => given.includes(it));
    if (!SCRIPT_FLAGS.includes(flag)) throw wrong('unknown flag given');
    given.push(flag);
  }
}

/** What a call registers. The function itself is taken into the registry. */
interface Given {
  name?: string;
  description?: string;
  flags?: readonly string[];
  ref?: number;
}

/** Reads the pair at the top of the stack, and takes its value off. */
function readNamed(stack: LuaStack, given: Given): void {
  const of = (field: string): string => `${field} argument given to redis.register_function must be a`;
  const keyType = stack.type(-2);
  if (keyType !== TYPE.string && keyType !== TYPE.number)
    throw wrong('named argument key given to redis.register_function is not a string');
  // A number as a key must stay one: it is not read as text in its place.
  const key = keyType === TYPE.string ? stack.text(-2).toLowerCase() : '';
  if (key === 'function_name') given.name = textAt(stack, -1, `${of(key)} string`);
  else if (key === 'description') given.description = textAt(stack, -1, `${of(key)} string`);
  else if (key === 'callback') {
    if (stack.type(-1) !== TYPE.function) throw wrong(`${of(key)} function`);
    given.ref = stack.module._luaL_ref(stack.state, REGISTRY);
    return;
  } else if (key === 'flags') {
    if (stack.type(-1) !== TYPE.table)
      throw wrong('flags argument to redis.register_function must be a table representing function flags');
    given.flags = flagsAt(stack);
  } else throw wrong('unknown argument given to redis.register_function');
  stack.pop();
}

function readArguments(stack: LuaStack): Given {
  const given: Given = {};
  const count = stack.top;
  if (count < 1 || count > 2) throw wrong('wrong number of arguments to redis.register_function');
  if (count === 2) {
    given.name = textAt(stack, 1, 'first argument to redis.register_function must be a string');
    if (stack.type(2) !== TYPE.function) throw wrong('second argument to redis.register_function must be a function');
    given.ref = stack.module._luaL_ref(stack.state, REGISTRY);
    return given;
  }
  if (stack.type(1) !== TYPE.table)
    throw wrong(
      'calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).',
    );
  stack.pushNil();
  while (stack.next(1)) readNamed(stack, given);
  return given;
}

/** `redis.register_function`. @param current - What is registered so far; `null` while no library is loaded. */
export const registerFunction =
  (current: () => Registered | null): LuaFunction =>
  (stack) => {
    const registered = current();
    if (registered === null) throw wrong('redis.register_function can only be called on FUNCTION LOAD command');
    const { name, description = null, flags = [], ref } = readArguments(stack);
    if (name === undefined) throw wrong('redis.register_function must get a function name argument');
    if (ref === undefined) throw wrong('redis.register_function must get a callback argument');
    if (!NAME.test(name)) throw wrong(BAD_NAME);
    if (registered.has(name)) throw wrong('Function already exists in the library');
    registered.set(name, { name, description, flags, ref });
    return 0;
  };
