/** What scripts see as their place of errors is their own: this chunk's name is passed over. */
export const PRELUDE_NAME = '=prelude';

/**
 * Makes the globals of Redis out of the standard libraries and of `raw`, the functions of JavaScript by library. Those
 * answer whether they succeeded, and then their results, or the error's text. Returns the globals, the error handler, a
 * function that says whether all is as it was, the table behind the globals, the globals of functions, and a function that
 * says whether a library is being loaded, which has other globals.
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

local constants = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = raw.version, REDIS_VERSION_NUM = raw.versionNumber,
}
local redis = library(raw.redis, constants)
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
-- What was compiled before is not loaded: it could do anything.
local BINARY = '\\27'
local function isBinary(s) return native.type(s) == 'string' and string.sub(s, 1, 1) == BINARY end
function globals.load(f, name)
  local isFirst = true
  local chunk, wrong = load(function()
    local piece = f()
    if isFirst and isBinary(piece) then return '?' end
    if piece ~= '' then isFirst = false end
    return piece
  end, name)
  if chunk then native.setfenv(chunk, globals._G) end
  return chunk, wrong
end
function globals.loadstring(s, name)
  local chunk, wrong = loadstring(isBinary(s) and '?' or s, name)
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

local strict = {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. native.tostring(name) .. "'", 2)
  end,
}
setmetatable(globals, strict)
local face = protect(globals)
native.rawset(globals, '_G', face)
native.rawset(globals, 'getmetatable', function(...)
  local t = ...
  if guarded[t] then return face end
  if native.select('#', ...) == 0 then error("bad argument #1 to 'getmetatable' (value expected)", 2) end
  return native.getmetatable(t)
end)

-- Of functions: while their library is loaded there is nothing but what registers them.
local registering = library({ register_function = raw.library.register_function, log = raw.redis.log }, constants)
local loading = setmetatable({ redis = protect(setmetatable(registering, strict)) }, strict)
local functionFace = protect(globals)
local setLoading
do
  local real = native.debug.getmetatable(functionFace)
  setLoading = function(isLoading) real.__index = isLoading and loading or globals end
end

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

-- A script that never ends is ended here: at every line from then on, so that it cannot catch that and go on.
local sethook = native.debug.sethook
local function hooked(count)
  local function hook()
    local why = raw.tick(count)
    if not why then return end
    sethook(hook, 'l', count)
    error(why, 0)
  end
  return hook, '', count
end
sethook(hooked(1000000))

-- Each coroutine has a hook of its own.
local create, resume = coroutine.create, coroutine.resume
function coroutineFace.create(f)
  local why = raw.tick(0)
  if why then error(why, 0) end
  local made = create(f)
  sethook(made, hooked(1000))
  return made
end
local function passOn(ok, ...)
  if not ok then error((...), 0) end
  return ...
end
function coroutineFace.wrap(f)
  local made = coroutineFace.create(f)
  return function(...) return passOn(resume(made, ...)) end
end

return face, handler, isPristine, globals, functionFace, setLoading
`;
