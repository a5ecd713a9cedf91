/** What of fengari, Lua 5.3 in JavaScript, is used here; it comes without types. */
declare module 'fengari' {
  export type LuaString = Uint8Array;
  export interface LuaState {
    readonly __luaState: true;
  }
  export function to_jsstring(text: LuaString): string;
  export function to_luastring(text: string): LuaString;
  export const lua: {
    readonly LUA_OK: number;
    readonly LUA_REGISTRYINDEX: number;
    readonly LUA_TNIL: number;
    readonly LUA_TBOOLEAN: number;
    readonly LUA_TNUMBER: number;
    readonly LUA_TSTRING: number;
    readonly LUA_TTABLE: number;
    lua_type(L: LuaState, index: number): number;
    lua_gettop(L: LuaState): number;
    lua_settop(L: LuaState, index: number): void;
    lua_pop(L: LuaState, n: number): void;
    lua_pushnil(L: LuaState): void;
    lua_pushboolean(L: LuaState, value: boolean): void;
    lua_pushinteger(L: LuaState, value: number): void;
    lua_pushstring(L: LuaState, text: LuaString): void;
    lua_pushcfunction(L: LuaState, f: (L: LuaState) => number): void;
    lua_pushvalue(L: LuaState, index: number): void;
    lua_toboolean(L: LuaState, index: number): boolean;
    lua_tonumber(L: LuaState, index: number): number;
    lua_tojsstring(L: LuaState, index: number): string;
    lua_createtable(L: LuaState, array: number, hash: number): void;
    lua_setfield(L: LuaState, index: number, name: LuaString): void;
    lua_getfield(L: LuaState, index: number, name: LuaString): number;
    lua_getglobal(L: LuaState, name: LuaString): number;
    lua_setglobal(L: LuaState, name: LuaString): void;
    lua_seti(L: LuaState, index: number, n: number): void;
    lua_rawgeti(L: LuaState, index: number, n: number): number;
    lua_setmetatable(L: LuaState, index: number): void;
    lua_pushglobaltable(L: LuaState): void;
    lua_pcall(L: LuaState, args: number, results: number, handler: number): number;
    lua_error(L: LuaState): never;
  };
  export const lauxlib: {
    luaL_newstate(): LuaState;
    luaL_requiref(L: LuaState, name: LuaString, open: (L: LuaState) => number, global: boolean): void;
    luaL_loadbuffer(L: LuaState, text: LuaString, size: number, name: LuaString): number;
    luaL_ref(L: LuaState, table: number): number;
  };
  export const lualib: {
    luaopen_base(L: LuaState): number;
    luaopen_table(L: LuaState): number;
    luaopen_string(L: LuaState): number;
    luaopen_math(L: LuaState): number;
  };
}
