/** What scripts see as their place of errors is their own: this chunk's name is passed over. */
export const PRELUDE_NAME = '=prelude';

/**
 * Makes the globals of Redis out of the standard libraries and of `raw`, the functions of JavaScript by library. Those
 * answer whether they succeeded, and then their results, or the error's text. Returns the globals, the error handler, and
 * a function that says whether all is as it was.
 *
 * Libraries and globals are empty tables that look their fields up in the real ones, so that they cannot be written to.
 */
export const PRELUDE = `
local raw, guarded = ...
local native = {
  debug = debug, error = error, getmetatable = getmetatable, next = next, pairs = pairs, pcall = pcall, rawset = rawset,
  select = select, setmetatable = setmetatable, tostring = tostring, type = type, setfenv = setfenv, rawget = rawget,
}
local error, type, rawget, setmetatable = native.error, native.type, native.rawget, native.setmetatable
local READONLY = 'Attempt to modify a readonly table'

local function protect(real)
  local face = {}
  guarded[face] = real
  return setmetatable(face, {
    __index = real,
    __newindex = function() error(READONLY, 2) end,
    __metatable = false,
  })
end

local function library(functions, constants)
  local made = {}
  for name, f in native.pairs(functions) do made[name] = f end
  for name, value in native.pairs(constants or {}) do made[name] = value end
  return made
end

local redis = library(raw.redis, {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = raw.version, REDIS_VERSION_NUM = raw.versionNumber,
})
local cjson = library(raw.cjson, { null = raw.null, _NAME = 'cjson', _VERSION = '2.1.0' })
local cmsgpack = library(raw.cmsgpack, {
  _NAME = 'cmsgpack', _VERSION = 'lua-cmsgpack 0.4.0',
  _COPYRIGHT = 'Copyright (C) 2012, Salvatore Sanfilippo', _DESCRIPTION = 'MessagePack C implementation for Lua',
})
math.random = raw.math.random
math.randomseed = raw.math.randomseed

local globals = {}
for _, name in native.pairs({
  'assert', 'error', 'getmetatable', 'ipairs', 'load', 'loadstring', 'next', 'pairs', 'rawequal', 'rawget', 'select',
  'tonumber', 'tostring', 'type', 'unpack', 'xpcall', '_VERSION',
}) do globals[name] = _G[name] end

function globals.pcall(...)
  return raw.handled(native.pcall(...))
end
raw.handled = function(ok, first, ...)
  if not ok and type(first) == 'table' then
    local text = rawget(first, 'err')
    if type(text) == 'string' or type(text) == 'number' then return false, text end
  end
  return ok, first, ...
end
globals.rawset = raw.base.rawset
globals.setmetatable = raw.base.setmetatable
-- How much memory is in use depends on what ran before: the answer is always the same.
function globals.collectgarbage(what)
  if what == 'count' then return 64, 0 end
  return 0
end
function globals.gcinfo() return 64, 64 end
function globals.load(f, name)
  local chunk, wrong = load(f, name)
  if chunk then native.setfenv(chunk, globals._G) end
  return chunk, wrong
end
function globals.loadstring(s, name)
  local chunk, wrong = loadstring(s, name)
  if chunk then native.setfenv(chunk, globals._G) end
  return chunk, wrong
end

local coroutineFace = {}
for name, f in native.pairs(coroutine) do coroutineFace[name] = f end
local faces = {
  redis = redis, cjson = cjson, cmsgpack = cmsgpack, bit = library(raw.bit), struct = library(raw.struct),
  string = string, table = table, math = math, coroutine = coroutineFace,
}
for name, real in native.pairs(faces) do
  faces[name] = protect(real)
  globals[name] = faces[name]
end
native.getmetatable('').__index = string
native.getmetatable('').__metatable = protect({ __index = faces.string })

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. native.tostring(name) .. "'", 2)
  end,
})
local face = protect(globals)
native.rawset(globals, '_G', face)
native.rawset(globals, 'getmetatable', function(...)
  local t = ...
  if guarded[t] then return face end
  if native.select('#', ...) == 0 then error("bad argument #1 to 'getmetatable' (value expected)", 2) end
  return native.getmetatable(t)
end)

local getinfo = native.debug.getinfo
local function handler(err)
  local level, info = 2, nil
  repeat
    info = getinfo(level, 'Sl')
    level = level + 1
  until not info or (info.what ~= 'C' and info.source ~= '=prelude')
  if type(err) ~= 'table' then err = { err = 'ERR ' .. native.tostring(err) } end
  if info and not guarded[err] then
    err.source = info.source
    err.line = info.currentline
  end
  return err
end
native.rawset(globals, '__redis__err__handler', handler)

local function isPristine()
  for it in native.next, guarded do
    if native.next(it) ~= nil then return false end
  end
  return true
end

-- A script that never ends is ended here, again and again if it catches that.
native.debug.sethook(function()
  if raw.tick() then error('the script does not come to an end and was stopped', 0) end
end, '', 1000000)

return face, handler, isPristine, globals
`;
