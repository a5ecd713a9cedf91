import type { LuaModule, Pointer } from './module.js';

/** The types of Lua's values, by its numbers. */
export const TYPE: Readonly<Record<'nil' | 'boolean' | 'light' | 'number' | 'string' | 'table' | 'function', number>> =
  {
    nil: 0,
    boolean: 1,
    light: 2,
    number: 3,
    string: 4,
    table: 5,
    function: 6,
  };

const TYPE_NAMES = ['nil', 'boolean', 'userdata', 'number', 'string', 'table', 'function', 'userdata', 'thread'];

const FIRST_BUFFER = 1 << 16;

/** An error that a script sees. */
export class LuaError {
  readonly message: string;
  /** Whether its message begins with where it was raised. */
  readonly saysWhere: boolean;

  constructor(message: string, saysWhere = true) {
    this.message = message;
    this.saysWhere = saysWhere;
  }
}

/** An argument is not what it has to be. */
export class BadArgument extends LuaError {
  /** Its place, from 1. */
  readonly index: number;

  constructor(index: number, why: string) {
    super(why);
    this.index = index;
  }
}

/** An error of the table `redis`: a table with the text of an error reply, with its code. */
export class RedisError extends LuaError {}

/** The stack of one Lua state. Strings are bytes as Latin-1; indexes are Lua's own, from 1 or from the end. */
export class LuaStack {
  readonly module: LuaModule;
  /** Of the coroutine that runs. */
  state: Pointer;
  private buffer: Pointer;
  private bufferSize = FIRST_BUFFER;
  private readonly lengthAt: Pointer;
  private memory: Buffer;

  constructor(module: LuaModule, state: Pointer) {
    this.module = module;
    this.state = state;
    this.buffer = module._malloc(FIRST_BUFFER);
    this.lengthAt = module._malloc(8);
    this.memory = Buffer.from(module.HEAPU8.buffer);
  }

  /** The module's memory, which is elsewhere when it has grown. */
  private get bytes(): Buffer {
    const { buffer } = this.module.HEAPU8;
    if (this.memory.buffer !== buffer) this.memory = Buffer.from(buffer);
    return this.memory;
  }

  /** Frees what it took of the module's memory. */
  dispose(): void {
    this.module._free(this.buffer);
    this.module._free(this.lengthAt);
  }

  get top(): number {
    return this.module._lua_gettop(this.state);
  }

  type(index: number): number {
    return this.module._lua_type(this.state, index);
  }

  typeName(index: number): string {
    const type = this.type(index);
    return type < 0 ? 'no value' : (TYPE_NAMES[type] ?? 'no value');
  }

  pop(count = 1): void {
    this.module._lua_settop(this.state, -count - 1);
  }

  /** The bytes of a string, or of a number as Lua writes it. */
  text(index: number): string {
    const { module } = this;
    const from = module._lua_tolstring(this.state, index, this.lengthAt);
    const { bytes } = this;
    return bytes.toString('latin1', from, from + bytes.readInt32LE(this.lengthAt));
  }

  number(index: number): number {
    return this.module._lua_tonumber(this.state, index);
  }

  boolean(index: number): boolean {
    return this.module._lua_toboolean(this.state, index) !== 0;
  }

  /** Puts bytes where Lua can read them, and says where. */
  write(text: string): Pointer {
    const { length } = text;
    if (length > this.bufferSize) {
      this.module._free(this.buffer);
      this.bufferSize = length * 2;
      this.buffer = this.module._malloc(this.bufferSize);
    }
    const { HEAPU8 } = this.module;
    const at = this.buffer;
    for (let i = 0; i < length; i++) HEAPU8[at + i] = text.charCodeAt(i);
    return at;
  }

  pushText(text: string): void {
    this.module._lua_pushlstring(this.state, this.write(text), text.length);
  }

  pushNumber(value: number): void {
    this.module._lua_pushnumber(this.state, value);
  }

  pushBoolean(value: boolean): void {
    this.module._lua_pushboolean(this.state, value ? 1 : 0);
  }

  pushNil(): void {
    this.module._lua_pushnil(this.state);
  }

  pushTable(items: number, fields: number): void {
    this.module._lua_createtable(this.state, items, fields);
  }

  /** Takes a value off the stack into the list below it. */
  setItem(place: number): void {
    this.module._lua_rawseti(this.state, -2, place);
  }

  /** Takes key and value off the stack into the table below them. */
  setPair(): void {
    this.module._lua_rawset(this.state, -3);
  }

  /** Sets a field of the table at the top to a text. */
  setTextField(name: string, value: string): void {
    this.pushText(name);
    this.pushText(value);
    this.setPair();
  }

  /** Puts an item of a list on the stack. */
  getItem(index: number, place: number): void {
    this.module._lua_rawgeti(this.state, index, place);
  }

  /** Puts a field of the table at the top on the stack, without its metatable. */
  getField(name: string): void {
    this.pushText(name);
    this.module._lua_rawget(this.state, -2);
  }

  /** With a key on the stack: takes it, and puts the next pair of the table at the index; `false` at the end. */
  next(index: number): boolean {
    return this.module._lua_next(this.state, index) !== 0;
  }

  /** Makes room for more values; `false` where there is none. */
  reserve(more: number): boolean {
    return this.module._lua_checkstack(this.state, more) !== 0;
  }

  // ——— arguments of a function ———

  /** An argument that has to be a string, or a number. */
  checkText(index: number): string {
    const type = this.type(index);
    if (type === TYPE.string || type === TYPE.number) return this.text(index);
    throw this.wrongType(index, 'string');
  }

  /** An argument that has to be a number, or text of one. */
  checkNumber(index: number): number {
    const type = this.type(index);
    if (type === TYPE.number) return this.number(index);
    const text = type === TYPE.string ? this.text(index).trim() : '';
    if (text !== '' && !Number.isNaN(Number(text))) return this.number(index);
    throw this.wrongType(index, 'number');
  }

  private wrongType(index: number, wanted: string): BadArgument {
    return new BadArgument(index, `${wanted} expected, got ${this.typeName(index)}`);
  }
}

/** A function of a library: leaves its results on the stack, and says how many. May throw a {@link LuaError}. */
export type LuaFunction = (stack: LuaStack) => number;
