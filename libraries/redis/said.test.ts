import { beforeAll, expect, test } from 'vitest';
import { loadLua } from '../../wire/index.js';
import { Effects } from './effect.js';
import { meaningOf } from './meaning.js';
import { saidBy } from './said.js';

beforeAll(loadLua);

function said(...commands: readonly (readonly string[])[]): string {
  return saidBy(
    commands,
    meaningOf(commands.find((it) => it.length > 1) ?? [], {
      textOf: () => undefined,
      effectOf: (text, rest) => new Effects().ofScript(text, rest, { isAcquiring: true, acquiredBy: null }),
      effectOfFunction: () => null,
      effectOfCommand: () => null,
    }),
  );
}

test('a command is shown as it is sent, without what it does not say', () => {
  expect(said(['set', 'a', 'f00', 'PX', '4000'])).toBe('SET a {token} PX 4000');
  expect(said(['set', 'a', 'f00', 'PX', '4000', 'NX'])).toBe('SET a {token} PX 4000 NX');
  expect(said(['del', 'a'])).toBe('DEL a');
  expect(said(['get', 'a'])).toBe('GET a');
});

test('of a script is shown what it does, if it looks before it acts, and else what it is given', () => {
  const release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
  expect(said(['eval', release, '1', 'a', 'f00'])).toBe('DEL a if {token}');
  expect(said(['eval', "return redis.call('del', KEYS[1])", '1', 'a', 'f00'])).toBe('EVAL a {token} (releases)');
  const set = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
  expect(said(['eval', set, '1', 'a', 'f00', '9'])).toBe('SET a {token} NX PX 9');
  expect(said(['eval', "return redis.call('pexpire', KEYS[1], ARGV[2])", '1', 'a', 'f00', '500'])).toBe(
    'EVAL a {token} 500 (extends)',
  );
  expect(said(['eval', 'return redis.sha1hex(ARGV[1])', '0', 'f00'])).toBe('EVAL {token} (looks)');
});

test('a script that extends by setting again what is its own does no more than that', () => {
  const extend =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], ARGV[1], 'PX', 500)";
  expect(said(['eval', extend, '1', 'a', 'f00', '500'])).toBe('SET a {token} PX 500 if {token}');
});

test('a script that sets the key again where it is gone does more than extend', () => {
  const refresh = `local value = redis.call('get', KEYS[1])
    if value == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
    if value == false then redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1 end return 0`;
  expect(said(['eval', refresh, '1', 'a', 'f00', '500'])).toBe('EVAL a {token} 500 (extends or sets)');
});

test('several commands in one go are shown one after the other, and what is long is cut off', () => {
  expect(said(['multi'], ['del', 'a'], ['exec'])).toBe('MULTI; DEL a; EXEC');
  expect(said(['set', 'a', 'f00', 'PX', '4000', 'k'.repeat(100)])).toMatch(/^SET a \{token\} PX 4000 k+…$/);
});

test('of options of SET that are there twice, the first counts', () => {
  const ofSet = (...options: readonly string[]): unknown[] => {
    const scripts = {
      textOf: () => undefined,
      effectOf: () => null,
      effectOfFunction: () => null,
      effectOfCommand: () => null,
    };
    const { operation, ttlMs } = meaningOf(['SET', 'px', 'xx', ...options], scripts);
    return [operation, ttlMs];
  };
  expect(ofSet('PX', '4000', 'px', '5', 'nx')).toEqual(['acquire', 4000]);
  expect(ofSet('ex', '4', 'XX')).toEqual(['extend', 4000]);
  expect(ofSet('IFEQ', 'f00', 'PX', '4000')).toEqual(['extend', 4000]);
  expect(ofSet()).toEqual(['acquire', 0]);
});

test('what would tell a terminal to do something is not shown', () => {
  expect(said(['get', 'a\u001b[2J'])).toBe('GET a·[2J');
});

test('takes for the key of a script what that sets, where it is not known what it does', () => {
  const text =
    "if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end return redis.call('SET', KEYS[2], ARGV[1], 'NX')";
  const scripts = {
    textOf: () => undefined,
    effectOf: () => null,
    effectOfFunction: () => null,
    effectOfCommand: () => null,
  };
  const meaning = meaningOf(['eval', text, '2', 'line', 'lock', 'ticket'], scripts);
  expect(meaning).toMatchObject({ operation: 'acquire', keys: ['lock'], value: 'ticket' });
});
