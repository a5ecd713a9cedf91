import { Failure, fail, printed, type Reply } from '../reply.js';
import { type Chunk, type Compiled, mayChange, NOT_COMPILED } from './chunk.js';
import { popReply } from './convert.js';
import type { Library, Registered } from './library.js';
import { type LuaModule, luaModule, type Pointer } from './module.js';
import { type PastRun, RecordingHost } from './past-run.js';
import { PRELUDE, PRELUDE_NAME } from './prelude.js';
import { rawLibraries } from './raw.js';
import type { ScriptHost } from './redis-library.js';
import { BadArgument, LuaError, type LuaFunction, LuaStack, RedisError, TYPE } from './stack.js';

const REGISTRY = -10_000;
/** The first value that belongs to a function of JavaScript: its number. */
const FIRST_UPVALUE = -10_003;

/** What a script may take, in millions of instructions, before it is held to be endless. */
const MAX_MILLIONS = 50;
/** The same for a library that is loaded. */
const MAX_MILLIONS_TO_LOAD = 5;
const ENDLESS = 'the script does not come to an end and was stopped';

/** How many libraries keep what their functions keep to themselves, those used last; others are loaded again. */
const MAX_LIBRARIES = 64;

/** For all machines of the module: which one runs, and how a function of it is called. */
let running: LuaMachine | null = null;
let dispatcher: Pointer | null = null;

function dispatch(state: Pointer): number {
  return running === null ? 0 : running.dispatch(state);
}

/**
 * One state of Lua 5.1 with the libraries of Redis. Scripts find nothing in it that another one left behind: what could
 * be changed is read-only, and a state that was changed nevertheless, or failed, is thrown away.
 */
export class LuaMachine {
  private readonly module: LuaModule = luaModule();
  private readonly functions: LuaFunction[] = [];
  private stack: LuaStack;
  private readonly chunks = new Map<string, Compiled>();
  private host: ScriptHost | null = null;
  private past: PastRun | null = null;
  private ticks = 0;
  private broken: { readonly error: unknown } | null = null;
  private refs = { globals: 0, face: 0, handler: 0, isPristine: 0, functionFace: 0, setLoading: 0 };
  private readonly libraries = new Map<Library, Registered>();
  private registered: Registered | null = null;
  private readonly version: string;

  /** @param version - Of the server, which scripts can ask for. */
  constructor(version: string) {
    this.version = version;
    this.stack = this.open();
  }

  /** Ends the state, and gives its memory back. */
  close(): void {
    this.module._lua_close(this.stack.state);
    this.stack.dispose();
    this.chunks.clear();
    this.libraries.clear();
  }

  private reopen(): void {
    this.close();
    this.stack = this.open();
  }

  private open(): LuaStack {
    const { module } = this;
    const state = module._luaL_newstate();
    const stack = new LuaStack(module, state);
    module._luaL_openlibs(state);
    this.functions.length = 0;
    dispatcher ??= module.addFunction(dispatch, 'ii');
    running = this;
    this.stack = stack;
    const wrong = this.load(stack, PRELUDE, PRELUDE_NAME);
    if (wrong !== null) throw new Error(wrong);
    stack.pushTable(0, 0);
    const guarded = module._luaL_ref(state, REGISTRY);
    this.pushRaw(stack, guarded);
    module._lua_rawgeti(state, REGISTRY, guarded);
    if (module._lua_pcall(state, 2, 6, 0) !== 0) throw new Error(stack.text(-1));
    const [setLoading = 0, functionFace = 0, globals = 0, isPristine = 0, handler = 0, face = 0] = Array.from(
      { length: 6 },
      () => module._luaL_ref(state, REGISTRY),
    );
    this.refs = { globals, isPristine, handler, face, functionFace, setLoading };
    this.broken = null;
    return stack;
  }

  /** Compiles a text: leaves its chunk on the stack, or says what is wrong. */
  private load(stack: LuaStack, text: string, name: string): string | null {
    const { module } = this;
    const { state } = stack;
    // What was compiled before is not loaded: it could do anything.
    if (text.startsWith('\x1b')) return `${name.slice(1)}:1: unexpected symbol near 'char(27)'`;
    const namePlace = module._malloc(name.length + 1);
    for (let i = 0; i <= name.length; i++) module.HEAPU8[namePlace + i] = i < name.length ? name.charCodeAt(i) : 0;
    const status = module._luaL_loadbuffer(state, stack.write(text), text.length, namePlace);
    module._free(namePlace);
    if (status === 0) return null;
    const wrong = stack.text(-1);
    stack.pop();
    return wrong;
  }

  // ——— functions of JavaScript ———

  private pushFunction(stack: LuaStack, implementation: LuaFunction): void {
    stack.pushNumber(this.functions.push(implementation) - 1);
    this.module._lua_pushcclosure(stack.state, dispatcher ?? 0, 1);
  }

  private pushRaw(stack: LuaStack, guarded: number): void {
    stack.pushTable(0, 12);
    const libraries = rawLibraries({
      guarded,
      host: () => this.currentHost(),
      registered: () => this.registered,
    });
    for (const [name, functions] of Object.entries(libraries)) {
      stack.pushText(name);
      stack.pushTable(0, 16);
      for (const [key, implementation] of Object.entries(functions)) {
        stack.pushText(key);
        this.pushFunction(stack, implementation);
        stack.setPair();
      }
      stack.setPair();
    }
    stack.setTextField('version', this.version);
    stack.pushText('versionNumber');
    const [major = 0, minor = 0, patch = 0] = this.version.split('.').map(Number);
    stack.pushNumber((major << 16) | (minor << 8) | patch);
    stack.setPair();
    stack.pushText('null');
    this.module._lua_pushlightuserdata(stack.state, 0);
    stack.setPair();
    stack.pushText('tick');
    this.pushFunction(stack, (it) => {
      this.ticks += it.number(1) / 1_000_000;
      if (!this.isOver) it.pushNil();
      else it.pushText(this.registered === null ? ENDLESS : 'FUNCTION LOAD timeout');
      return 1;
    });
    stack.setPair();
  }

  /** It has taken too long. */
  private get isOver(): boolean {
    return this.ticks > (this.registered === null ? MAX_MILLIONS : MAX_MILLIONS_TO_LOAD);
  }

  private currentHost(): ScriptHost {
    if (this.host === null) throw new LuaError('redis.call/pcall can only be called inside a script invocation');
    return this.host;
  }

  /** Calls a function by its number; what it throws is for the one who runs the script. */
  dispatch(state: Pointer): number {
    const { stack } = this;
    const before = stack.state;
    stack.state = state;
    const count = this.invoke(stack);
    stack.state = before;
    if (typeof count === 'number' && count >= 0) return count;
    // Both leave this function by an exception: nothing may be open here.
    if (typeof count === 'number') return this.module._lua_error(state);
    return this.module._luaL_argerror(state, count.index, stack.write(`${count.message}\0`));
  }

  /** How many results the function that is called has left on the stack, or -1 with an error on it. */
  private invoke(stack: LuaStack): number | BadArgument {
    try {
      const implementation = this.functions[stack.number(FIRST_UPVALUE)];
      return implementation === undefined ? 0 : implementation(stack);
    } catch (error) {
      if (error instanceof BadArgument) return error;
      if (!(error instanceof LuaError)) this.broken ??= { error };
      stack.reserve(4);
      if (error instanceof RedisError) {
        stack.pushTable(0, 1);
        stack.setTextField('err', error.message);
      } else {
        const isLocated = !(error instanceof LuaError) || error.saysWhere;
        this.module._luaL_where(stack.state, isLocated ? 1 : 0);
        stack.pushText(error instanceof LuaError ? error.message : 'internal error');
        this.module._lua_concat(stack.state, 2);
      }
      return -1;
    }
  }

  // ——— scripts ———

  /** Says what is wrong with a script's text, or `null`. */
  compile(chunk: Chunk): string | null {
    if (this.chunks.has(chunk.text)) return null;
    const { module, stack } = this;
    const wrong = this.load(stack, chunk.text, chunk.name);
    if (wrong !== null) return wrong;
    module._lua_rawgeti(stack.state, REGISTRY, this.refs.face);
    module._lua_setfenv(stack.state, -2);
    this.chunks.set(chunk.text, { ref: module._luaL_ref(stack.state, REGISTRY), mayChange: mayChange(chunk.text) });
    return null;
  }

  /**
   * Runs a script that compiles to its end. What it has written stays, whatever it ends with.
   * @param where - What an error says of where it was raised, after its message: the script's SHA-1.
   */
  run(chunk: Chunk, keys: readonly string[], argv: readonly string[], context: RunContext): Reply {
    const wrong = this.compile(chunk);
    if (wrong !== null) return fail(`Error compiling script (new function): ${wrong}`);
    const { past } = this;
    const answers: Reply[] = [];
    context.host.protocol = 2;
    if (past?.isOf(chunk, keys, argv) && past.repeats(context.host, answers)) return past.reply;
    const host = new RecordingHost(context.host, answers);
    const { module, stack } = this;
    const { state } = stack;
    this.begin(host);
    module._lua_rawgeti(state, REGISTRY, this.refs.handler);
    module._lua_rawgeti(state, REGISTRY, this.refs.globals);
    this.setGlobal('KEYS', keys);
    this.setGlobal('ARGV', argv);
    stack.pop();
    const compiled = this.chunks.get(chunk.text) ?? NOT_COMPILED;
    module._lua_rawgeti(state, REGISTRY, compiled.ref);
    const own = { host, name: context.name };
    const reply = this.finish(() => module._lua_pcall(state, 0, 1, 1), own, compiled.mayChange);
    this.past = compiled.mayChange ? null : host.pastRun(chunk, keys, argv, reply);
    return reply;
  }

  private setGlobal(name: string, values: readonly string[] | null): void {
    this.stack.pushText(name);
    if (values === null) this.stack.pushNil();
    else this.pushStrings(values);
    this.stack.setPair();
  }

  private pushStrings(values: readonly string[]): void {
    const { stack } = this;
    stack.pushTable(values.length, 0);
    for (let i = 0; i < values.length; i++) {
      stack.pushText(values[i] ?? '');
      stack.setItem(i + 1);
    }
  }

  // ——— functions ———

  /** Has a library register its functions. Throws a `Failure` that says what is wrong with it. */
  addLibrary(text: Pick<Library, 'name' | 'code' | 'body'>): Library {
    const functions = this.register(text.body);
    const library: Library = { ...text, functions };
    this.keep(library, functions);
    return library;
  }

  /** Forgets a library, and what its functions keep to themselves. */
  forget(library: Library): void {
    for (const { ref } of this.libraries.get(library)?.values() ?? [])
      this.module._luaL_unref(this.stack.state, REGISTRY, ref);
    this.libraries.delete(library);
  }

  /** Calls a function of a library to its end. */
  call(library: Library, words: Arguments, context: RunContext): Reply {
    const registered = this.libraries.get(library) ?? this.register(library.body);
    this.keep(library, registered);
    const { module, stack } = this;
    const { state } = stack;
    this.begin(context.host);
    module._lua_rawgeti(state, REGISTRY, this.refs.handler);
    module._lua_rawgeti(state, REGISTRY, this.refs.globals);
    for (const name of ['KEYS', 'ARGV']) this.setGlobal(name, null);
    stack.pop();
    module._lua_rawgeti(state, REGISTRY, registered.get(context.name)?.ref ?? 0);
    this.pushStrings(words.keys);
    this.pushStrings(words.argv);
    return this.finish(() => module._lua_pcall(state, 2, 1, 1), context);
  }

  private keep(library: Library, registered: Registered): void {
    this.libraries.delete(library);
    this.libraries.set(library, registered);
    const [oldest] = this.libraries.keys();
    if (oldest !== undefined && this.libraries.size > MAX_LIBRARIES) this.forget(oldest);
  }

  private register(body: string): Registered {
    const { module, stack } = this;
    const uncompiled = this.load(stack, body, '@user_function');
    if (uncompiled !== null) throw fail(`Error compiling function: ${uncompiled}`);
    module._lua_rawgeti(stack.state, REGISTRY, this.refs.functionFace);
    module._lua_setfenv(stack.state, -2);
    running = this;
    this.ticks = 0;
    const registered: Registered = new Map();
    this.registered = registered;
    this.setLoading(true);
    const status = module._lua_pcall(stack.state, 0, 0, 0);
    const { isOver } = this;
    this.registered = null;
    if (!isOver) this.setLoading(false);
    const isText = stack.type(-1) === TYPE.string;
    const why = status === 0 ? '' : `${isText ? 'ERR ' : ''}${this.messageOf('err')}`;
    module._lua_settop(stack.state, 0);
    const { broken } = this;
    if (broken !== null || isOver) this.reopen();
    if (broken !== null) throw broken.error;
    if (status !== 0) throw fail(`Error registering functions: ${why}`);
    if (registered.size === 0) throw fail('No functions registered');
    return registered;
  }

  private setLoading(isLoading: boolean): void {
    const { module, stack } = this;
    module._lua_rawgeti(stack.state, REGISTRY, this.refs.setLoading);
    stack.pushBoolean(isLoading);
    module._lua_pcall(stack.state, 1, 0, 0);
  }

  // ——— ends ———

  private begin(host: ScriptHost): void {
    running = this;
    this.host = host;
    this.ticks = 0;
    host.protocol = 2;
  }

  /** Calls what is on the stack, makes a reply of what it ends with, and leaves the state as it was. */
  private finish(call: () => number, { host, name }: RunContext, isSuspect = true): Reply {
    const { stack } = this;
    let reply: Reply = null;
    try {
      const status = call();
      reply = status === 0 ? popReply(stack, host.protocol) : this.raised(name);
    } catch (error) {
      this.broken ??= { error };
    }
    this.host = null;
    const { broken } = this;
    if (broken === null && !this.isOver && (!isSuspect || this.isPristine())) {
      this.module._lua_settop(stack.state, 0);
      return reply;
    }
    this.reopen();
    if (broken !== null) throw broken.error;
    return reply;
  }

  private isPristine(): boolean {
    const { module, stack } = this;
    module._lua_rawgeti(stack.state, REGISTRY, this.refs.isPristine);
    if (module._lua_pcall(stack.state, 0, 1, 0) !== 0) return false;
    return stack.boolean(-1);
  }

  /** What a script that raised an error is answered with. */
  private raised(name: string): Failure {
    const { stack } = this;
    if (stack.type(-1) !== TYPE.table) return fail(`Error running script ${name}, ${stack.text(-1).slice(0, 100)}`);
    const [message, source, line] = [printed(this.messageOf('err')), this.messageOf('source'), this.messageOf('line')];
    const where = source === '' || line === '' ? '' : ` script: ${name}, on ${source}:${line}.`;
    const text = message === '' ? 'ERR unknown error' : message;
    return new Failure(`${text.startsWith('-') ? text.slice(1) : text}${where}`);
  }

  /** A field of the error at the top of the stack, or that text itself. */
  private messageOf(field: string): string {
    const { stack } = this;
    if (stack.type(-1) !== TYPE.table) return stack.text(-1);
    stack.getField(field);
    const type = stack.type(-1);
    const text = type === TYPE.string || type === TYPE.number ? stack.text(-1) : '';
    stack.pop();
    return text;
  }
}

/** What a script or a function is given. */
export interface Arguments {
  readonly keys: readonly string[];
  readonly argv: readonly string[];
}

/** Who runs a script, and what errors call it. */
interface RunContext {
  readonly host: ScriptHost;
  /** Its SHA-1, or the name of the function. */
  readonly name: string;
}
