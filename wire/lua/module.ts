import { Lua } from 'wasmoon-lua5.1';

/** Numbers that stand for a state and for places in memory. */
export type Pointer = number;

/** What is used of Lua's C interface, compiled to WebAssembly. */
export interface LuaModule {
  HEAPU8: Uint8Array;
  addFunction(callback: (state: Pointer) => number, signature: 'ii'): Pointer;
  _malloc(bytes: number): Pointer;
  _free(at: Pointer): void;
  _luaL_newstate(): Pointer;
  _luaL_openlibs(state: Pointer): void;
  _luaL_loadbuffer(state: Pointer, text: Pointer, length: number, name: Pointer): number;
  _luaL_argerror(state: Pointer, index: number, why: Pointer): number;
  _luaL_ref(state: Pointer, table: number): number;
  _luaL_unref(state: Pointer, table: number, ref: number): void;
  _luaL_where(state: Pointer, level: number): void;
  _lua_checkstack(state: Pointer, more: number): number;
  _lua_close(state: Pointer): void;
  _lua_createtable(state: Pointer, items: number, fields: number): void;
  _lua_concat(state: Pointer, count: number): void;
  _lua_error(state: Pointer): number;
  _lua_getmetatable(state: Pointer, index: number): number;
  _lua_gettop(state: Pointer): number;
  _lua_insert(state: Pointer, index: number): void;
  _lua_next(state: Pointer, index: number): number;
  _lua_objlen(state: Pointer, index: number): number;
  _lua_pcall(state: Pointer, args: number, results: number, handler: number): number;
  _lua_pushboolean(state: Pointer, value: number): void;
  _lua_pushcclosure(state: Pointer, callback: Pointer, upvalues: number): void;
  _lua_pushlightuserdata(state: Pointer, value: Pointer): void;
  _lua_pushlstring(state: Pointer, text: Pointer, length: number): void;
  _lua_pushnil(state: Pointer): void;
  _lua_pushnumber(state: Pointer, value: number): void;
  _lua_pushvalue(state: Pointer, index: number): void;
  _lua_rawget(state: Pointer, index: number): void;
  _lua_rawgeti(state: Pointer, index: number, item: number): void;
  _lua_rawset(state: Pointer, index: number): void;
  _lua_rawseti(state: Pointer, index: number, item: number): void;
  _lua_setmetatable(state: Pointer, index: number): number;
  _lua_setfenv(state: Pointer, index: number): number;
  _lua_settop(state: Pointer, index: number): void;
  _lua_toboolean(state: Pointer, index: number): number;
  _lua_tolstring(state: Pointer, index: number, length: Pointer): Pointer;
  _lua_tonumber(state: Pointer, index: number): number;
  _lua_touserdata(state: Pointer, index: number): Pointer;
  _lua_type(state: Pointer, index: number): number;
}

let loading: Promise<LuaModule> | null = null;
let loaded: LuaModule | null = null;

/** Loads Lua 5.1, once for the process. Scripts can be run after that. */
export async function loadLua(): Promise<void> {
  loading ??= load();
  loaded = await loading;
}

type Exports = Readonly<Record<string, unknown>>;
type Instantiate = (...args: readonly unknown[]) => Promise<{ readonly instance?: { readonly exports: Exports } }>;

/**
 * Keeps the functions of Lua as they were compiled. Around each, `wasmoon` has one that looks whether it is there, which takes
 * longer than most of them do; it shows no others.
 */
async function load(): Promise<LuaModule> {
  const { WebAssembly: assembly } = globalThis as unknown as { readonly WebAssembly: { instantiate: Instantiate } };
  const { instantiate } = assembly;
  let compiled: Exports = {};
  assembly.instantiate = async (...args) => {
    const made = await instantiate(...args);
    const { exports = {} } = made.instance ?? {};
    if ('lua_pcall' in exports) compiled = exports;
    return made;
  };
  try {
    const lua = await Lua.create({ injectObjects: false, openStandardLibs: false });
    // Its own types leave out what is called here.
    return direct(lua.luaApi.module as unknown as LuaModule, compiled);
  } finally {
    assembly.instantiate = instantiate;
  }
}

function direct(module: LuaModule, compiled: Exports): LuaModule {
  const functions = Object.entries(module).filter(([name]) => name.startsWith('_'));
  return {
    ...Object.fromEntries(functions.map(([name, checked]) => [name, compiled[name.slice(1)] ?? checked])),
    addFunction: module.addFunction,
    // Elsewhere when the memory has grown.
    get HEAPU8() {
      return module.HEAPU8;
    },
  } as LuaModule;
}

/** The module that {@link loadLua} has loaded. Throws before. */
export function luaModule(): LuaModule {
  if (loaded === null)
    throw new Error('Lua is not loaded yet: call loadLua() and wait for it before a node runs a script.');
  return loaded;
}
