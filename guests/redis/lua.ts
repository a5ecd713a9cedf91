import { createHash } from 'node:crypto';
import { type LuaState, lauxlib, lua, lualib, to_luastring } from 'fengari';
import { Failure, type Reply, Status } from './reply.js';

/** Carries out one command of a script. */
export type CallRedis = (args: readonly string[]) => Reply;

const NAMES = {
  base: to_luastring('_G'),
  table: to_luastring('table'),
  string: to_luastring('string'),
  math: to_luastring('math'),
  redis: to_luastring('redis'),
  keys: to_luastring('KEYS'),
  argv: to_luastring('ARGV'),
  ok: to_luastring('ok'),
  err: to_luastring('err'),
  chunk: to_luastring('@user_script'),
};

/**
 * What Lua 5.1 of Redis has and 5.3 has not; and no globals but these, as in Redis. `tostring` of a whole float differs:
 * 5.3 says `3.0`.
 */
const PRELUDE = `
unpack, loadstring = table.unpack, load
dofile, loadfile, print, require, collectgarbage = nil, nil, nil, nil, nil
setmetatable(_G, {
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable \\'' .. tostring(name) .. '\\'', 2)
  end,
  __newindex = function(_, name)
    if name ~= 'KEYS' and name ~= 'ARGV' then
      error('Attempt to modify a readonly table', 2)
    end
  end,
})`;

/** The name of a script in a node's cache. */
export function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}

/**
 * Runs the Lua text of scripts as a Redis server does, with compiled chunks kept. There is nothing in it that belongs to a
 * node: one machine serves them all. Not offered: `cjson`, `cmsgpack`, `struct`, `bit` and functions.
 */
export class LuaMachine {
  private readonly state: LuaState = lauxlib.luaL_newstate();
  private readonly chunks = new Map<string, number>();
  private call: CallRedis = () => null;

  constructor() {
    const L = this.state;
    lauxlib.luaL_requiref(L, NAMES.base, lualib.luaopen_base, true);
    lauxlib.luaL_requiref(L, NAMES.table, lualib.luaopen_table, true);
    lauxlib.luaL_requiref(L, NAMES.string, lualib.luaopen_string, true);
    lauxlib.luaL_requiref(L, NAMES.math, lualib.luaopen_math, true);
    lua.lua_settop(L, 0);
    this.setArray(NAMES.keys, []);
    this.setArray(NAMES.argv, []);
    this.openRedis();
    this.load(PRELUDE);
    if (lua.lua_pcall(L, 0, 0, 0) !== lua.LUA_OK) throw new Error(lua.lua_tojsstring(L, -1));
  }

  /** Says what is wrong with a script's text, or `null`. */
  compile(text: string): Failure | null {
    if (this.chunks.has(text)) return null;
    const L = this.state;
    const wrong = this.load(text);
    if (wrong !== null) return new Failure(`ERR Error compiling script (new function): ${wrong}`);
    this.chunks.set(text, lauxlib.luaL_ref(L, lua.LUA_REGISTRYINDEX));
    return null;
  }

  /** Runs a script to its end: what it has written stays, whatever it ends with. */
  run(text: string, keys: readonly string[], argv: readonly string[], call: CallRedis): Reply {
    const wrong = this.compile(text);
    if (wrong !== null) return wrong;
    const L = this.state;
    this.call = call;
    this.setArray(NAMES.keys, keys);
    this.setArray(NAMES.argv, argv);
    lua.lua_rawgeti(L, lua.LUA_REGISTRYINDEX, this.chunks.get(text) ?? 0);
    const status = lua.lua_pcall(L, 0, 1, 0);
    const reply = status === lua.LUA_OK ? this.replyAt(-1) : this.raised(text);
    lua.lua_settop(L, 0);
    return reply;
  }

  /** Leaves the chunk on the stack, or nothing and says what is wrong. */
  private load(text: string): string | null {
    const L = this.state;
    const source = to_luastring(text);
    if (lauxlib.luaL_loadbuffer(L, source, source.length, NAMES.chunk) === lua.LUA_OK) return null;
    const wrong = lua.lua_tojsstring(L, -1);
    lua.lua_settop(L, 0);
    return wrong;
  }

  /** What a script that raised an error is answered with: the error of the command in it, or its own. */
  private raised(text: string): Failure {
    const L = this.state;
    const where = ` script: ${sha1(text)}, on @user_script.`;
    if (lua.lua_type(L, -1) === lua.LUA_TTABLE) {
      const reply = this.replyAt(-1);
      return new Failure(`${reply instanceof Failure ? reply.text : 'ERR unknown error'}${where}`);
    }
    return new Failure(`ERR ${lua.lua_tojsstring(L, -1)}${where}`);
  }

  private setArray(name: Uint8Array, values: readonly string[]): void {
    const L = this.state;
    lua.lua_createtable(L, values.length, 0);
    for (const [i, value] of values.entries()) {
      lua.lua_pushstring(L, to_luastring(value));
      lua.lua_seti(L, -2, i + 1);
    }
    lua.lua_setglobal(L, name);
  }

  // ——— the table `redis` ———

  private openRedis(): void {
    const functions: Readonly<Record<string, (L: LuaState) => number>> = {
      call: (L) => this.command(L, true),
      pcall: (L) => this.command(L, false),
      sha1hex: (L) => push(L, sha1(lua.lua_tojsstring(L, 1))),
      error_reply: (L) => push(L, new Failure(withCode(lua.lua_tojsstring(L, 1)))),
      status_reply: (L) => push(L, new Status(lua.lua_tojsstring(L, 1))),
      log: () => 0,
      replicate_commands: (L) => push(L, 1),
    };
    const L = this.state;
    const constants = { LOG_DEBUG: 0, LOG_VERBOSE: 1, LOG_NOTICE: 2, LOG_WARNING: 3 };
    lua.lua_createtable(L, 0, 11);
    for (const [name, value] of Object.entries(functions)) {
      lua.lua_pushcfunction(L, value);
      lua.lua_setfield(L, -2, to_luastring(name));
    }
    for (const [name, value] of Object.entries(constants)) {
      lua.lua_pushinteger(L, value);
      lua.lua_setfield(L, -2, to_luastring(name));
    }
    lua.lua_setglobal(L, NAMES.redis);
  }

  private command(L: LuaState, raises: boolean): number {
    const args: string[] = [];
    let reply: Reply | null = null;
    for (let i = 1; i <= lua.lua_gettop(L); i++) {
      const type = lua.lua_type(L, i);
      if (type === lua.LUA_TNUMBER) args.push(String(lua.lua_tonumber(L, i)));
      else if (type === lua.LUA_TSTRING) args.push(lua.lua_tojsstring(L, i));
      else reply = new Failure('ERR Lua redis lib command arguments must be strings or integers');
    }
    if (args.length === 0) reply ??= new Failure('ERR Please specify at least one argument for this redis.call() call');
    reply ??= this.call(args);
    push(L, reply);
    if (raises && reply instanceof Failure) return lua.lua_error(L);
    return 1;
  }

  // ——— conversions, as Redis makes them ———

  private replyAt(index: number): Reply {
    const L = this.state;
    switch (lua.lua_type(L, index)) {
      case lua.LUA_TSTRING:
        return lua.lua_tojsstring(L, index);
      case lua.LUA_TNUMBER:
        return Math.trunc(lua.lua_tonumber(L, index));
      case lua.LUA_TBOOLEAN:
        return lua.lua_toboolean(L, index) ? 1 : null;
      case lua.LUA_TTABLE:
        return this.tableAt(index);
      default:
        return null;
    }
  }

  private tableAt(index: number): Reply {
    const L = this.state;
    const failure = this.field(index, NAMES.err);
    if (failure !== null) return new Failure(failure);
    const status = this.field(index, NAMES.ok);
    if (status !== null) return new Status(status);
    const items: Reply[] = [];
    for (let i = 1; ; i++) {
      const ended = lua.lua_rawgeti(L, index, i) === lua.LUA_TNIL;
      if (!ended) items.push(this.replyAt(-1));
      lua.lua_pop(L, 1);
      if (ended) return items;
    }
  }

  private field(index: number, name: Uint8Array): string | null {
    const L = this.state;
    const text = lua.lua_getfield(L, index, name) === lua.LUA_TSTRING ? lua.lua_tojsstring(L, -1) : null;
    lua.lua_pop(L, 1);
    return text;
  }
}

function withCode(text: string): string {
  return text.startsWith('-') ? text.slice(1) : text.includes(' ') ? text : `ERR ${text}`;
}

/** Pushes a reply as a script sees it: nil is `false`. */
function push(L: LuaState, reply: Reply): 1 {
  if (reply === null) lua.lua_pushboolean(L, false);
  else if (typeof reply === 'number') lua.lua_pushinteger(L, reply);
  else if (typeof reply === 'string') lua.lua_pushstring(L, to_luastring(reply));
  else if (reply instanceof Status || reply instanceof Failure) {
    lua.lua_createtable(L, 0, 1);
    lua.lua_pushstring(L, to_luastring(reply.text));
    lua.lua_setfield(L, -2, reply instanceof Status ? NAMES.ok : NAMES.err);
  } else {
    lua.lua_createtable(L, reply.length, 0);
    for (const [i, item] of reply.entries()) {
      push(L, item);
      lua.lua_seti(L, -2, i + 1);
    }
  }
  return 1;
}
