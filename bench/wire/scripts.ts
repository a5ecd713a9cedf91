import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Beside the sources, and one folder further up from the build. */
const PACKAGES: string = fileURLToPath(
  new URL(import.meta.url.includes('/dist/') ? '../../../node_modules/' : '../../node_modules/', import.meta.url),
);

/** Lock libraries that are installed, whose scripts are run as well. */
const LIBRARIES = [
  ...['redlock4/redlock.js', 'redlock5/dist/cjs/index.js', 'redis-semaphore/lib', 'redlock-universal/dist'],
  ...['@sesamecare-oss/redlock/build', 'bullmq/dist/cjs/scripts'],
] as const;

/** Template strings without holes that call Redis, of any JavaScript file under a path. */
function scriptsUnder(path: string): string[] {
  if (statSync(path).isDirectory())
    return readdirSync(path)
      .sort()
      .flatMap((name) => scriptsUnder(join(path, name)));
  if (!/\.[cm]?js$/.test(path)) return [];
  return [...readFileSync(path, 'utf8').matchAll(/`([^`]*redis\.p?call[^`]*)`/g)]
    .map(([, body = '']) => body)
    .filter((body) => /^\s*(--|local|if|return|redis|for)/.test(body) && !body.includes('${'));
}

/** Streams are not simulated. */
const ON_STREAMS = /['"]X(ADD|TRIM|DEL|LEN|RANGE|READ)['"]/i;

/** Loops that may not end with random arguments. */
const ENDLESS = /\bwhile\b|\brepeat\b/;

/** The scripts of lock and queue libraries, each once. */
export function libraryScripts(): string[] {
  const found = LIBRARIES.flatMap((name) => scriptsUnder(join(PACKAGES, name)));
  return [...new Set(found)].filter((body) => !ON_STREAMS.test(body) && !ENDLESS.test(body));
}

/** Scripts on what Lua and Redis make of each other's values. */
export const OWN_SCRIPTS: readonly string[] = [
  'return {KEYS[1], ARGV[1], #KEYS, #ARGV}',
  "return redis.call('GET', KEYS[1])",
  "return redis.pcall('INCR', KEYS[1])",
  "return {redis.call('SET', KEYS[1], ARGV[1]), redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}",
  "local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
  "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 1500) return nil end return redis.call('PTTL', KEYS[1])",
  "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
  "redis.setresp(3) return redis.pcall('ZSCORE', KEYS[1], ARGV[1])",
  'return cjson.encode({KEYS[1], ARGV[1], 1.5, true, {}})',
  'local ok, v = pcall(cjson.decode, ARGV[1]) return {ok, type(v), tostring(v)}',
  'return cmsgpack.pack({ARGV[1], tonumber(ARGV[2]) or 0, {a = 1}})',
  'return {cmsgpack.unpack(cmsgpack.pack(ARGV[1], {1, 2, ARGV[2]}))}',
  'return {bit.band(tonumber(ARGV[1]) or 7, 255), bit.lshift(3, 4), bit.tohex(tonumber(ARGV[2]) or 1)}',
  "return {struct.unpack('<i4s', struct.pack('<i4s', tonumber(ARGV[1]) or 1, 'ab'))}",
  'return tonumber(ARGV[1])',
  'return tostring((tonumber(ARGV[1]) or 3) / 2)',
  "return redis.call('SET', KEYS[1], (tonumber(ARGV[1]) or 1) / 3)",
  'return redis.error_reply(ARGV[1])',
  'return redis.status_reply(ARGV[1])',
  'error(ARGV[1])',
  "return redis.call(ARGV[1], KEYS[1], 'x')",
  'return undefined_variable',
  'KEYS[1] = nil return {KEYS[1] or false, type(redis), redis.sha1hex(ARGV[1] or "")}',
  "return {redis.call('TIME')[1], redis.call('TYPE', KEYS[1]), redis.call('SCARD', KEYS[1])}",
  "local t = redis.call('HGETALL', KEYS[1]) return #t",
  'return string.format("%s %d %5.2f", ARGV[1] or "", 3, 1.005)',
];

/** Libraries of functions, and such that are refused. */
export const OWN_LIBRARIES: readonly string[] = [
  "#!lua name=one\nlocal n = 0 redis.register_function('f', function(keys, argv) n = n + 1 return {n, keys, argv} end)",
  "#!lua name=two\nredis.register_function('g', function(keys, argv) return redis.call('SET', keys[1], argv[1]) end)",
  "#!lua name=two\nredis.register_function{function_name='r', description='d', flags={'no-writes'}, callback=function(keys, argv) return redis.pcall(argv[1] or 'GET', keys[1]) end}",
  "#!lua name=three\nredis.register_function('f', function() return 3 end)",
  '#!lua name=four\nreturn 4',
  '#!lua name=five\nredis.call("PING")',
  '#!lua name=a-b\nreturn 4',
  '#!lua x=y\nreturn 4',
  'return 4',
  "#!lua name=six\nredis.register_function('h', 1)",
];
