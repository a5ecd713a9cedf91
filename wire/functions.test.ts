import { beforeAll, describe, expect, it } from 'vitest';
import { loadLua } from './index.js';
import { Bench, type Client } from './testing/client.js';

beforeAll(loadLua);

const COUNTER = `#!lua name=counter
local count = 0
local function next(keys, argv)
  count = count + 1
  redis.call('SET', keys[1], argv[1])
  return {count, redis.call('GET', keys[1])}
end
redis.register_function('next', next)
redis.register_function{function_name='look', callback=function(keys) return redis.call('GET', keys[1]) end, flags={'no-writes'}}
`;

function loaded(): Client {
  const it = new Bench().connect();
  expect(it.ask('FUNCTION', 'LOAD', COUNTER)).toBe('$7\r\ncounter\r\n');
  return it;
}

describe('functions', () => {
  it('are called with keys and arguments, and keep what is their own', () => {
    const it = loaded();
    expect(it.ask('FCALL', 'next', '1', 'k', 'x')).toBe('*2\r\n:1\r\n$1\r\nx\r\n');
    expect(it.ask('FCALL', 'NEXT', '1', 'k', 'y')).toBe('*2\r\n:2\r\n$1\r\ny\r\n');
    expect(it.ask('FCALL_RO', 'look', '1', 'k')).toBe('$1\r\ny\r\n');
  });

  it('keep it for each server, not for all', () => {
    const [one, two] = [loaded(), loaded()];
    one.ask('FCALL', 'next', '1', 'k', 'x');
    expect(two.ask('FCALL', 'next', '1', 'k', 'x')).toBe('*2\r\n:1\r\n$1\r\nx\r\n');
  });

  it('go on where a script has spoilt the state of Lua that they share', () => {
    const it = loaded();
    it.ask('EVAL', "table.insert(_G, 'left behind')", '0');
    expect(it.ask('FCALL', 'next', '1', 'k', 'x')).toContain('$1\r\nx\r\n');
  });

  it('see neither the globals of scripts nor those of their library while it is loaded', () => {
    const it = loaded();
    it.ask('EVAL', 'return KEYS[1]', '1', 'k');
    const code = "#!lua name=l\nredis.register_function('f', function() return KEYS[1] end)";
    it.ask('FUNCTION', 'LOAD', code);
    expect(it.ask('FCALL', 'f', '0')).toContain("nonexistent global variable 'KEYS'");
    expect(it.ask('FUNCTION', 'LOAD', '#!lua name=m\nreturn math.random()')).toBe(
      "-ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'math'\r\n",
    );
  });

  it.each([
    ['return 1', 'Missing library metadata'],
    ['#!lua', 'Invalid library metadata'],
    ['#!lua\nreturn 1', 'Library name was not given'],
    ['#!lua name=a b=c\nreturn 1', 'Invalid metadata value given: b=c'],
    ['#!lua name=counter\nreturn 1', "Library 'counter' already exists"],
    ['#!js name=a\nreturn 1', "Engine 'js' not found"],
    ['#!lua name=a\nreturn 1', 'No functions registered'],
    ["#!lua name=a\nredis.register_function('next', function() end)", 'Function next already exists'],
    ["#!lua name=a\nredis.register_function('f')", 'calling redis.register_function with a single argument is only'],
    ["#!lua name=a\nredis.register_function{function_name='f', callback=print}", "global variable 'print'"],
    ['#!lua name=a\nwhile true do end', 'FUNCTION LOAD timeout'],
    ['#!lua name=a\nx x', 'Error compiling function: user_function:2:'],
  ])('are refused with their library: %s', (code, why) => {
    const it = loaded();
    expect(it.ask('FUNCTION', 'LOAD', code)).toMatch(/^-ERR /);
    expect(it.ask('FUNCTION', 'LOAD', code)).toContain(why);
    expect(it.ask('FUNCTION', 'STATS')).toContain('$15\r\nlibraries_count\r\n:1\r\n');
    expect(it.ask('FCALL', 'next', '1', 'k', 'x')).toContain(':1\r\n');
  });

  it('that write are not called as read-only, and say where they fail', () => {
    const it = loaded();
    expect(it.ask('FCALL_RO', 'next', '1', 'k', 'x')).toBe(
      '-ERR Can not execute a script with write flag using *_ro command.\r\n',
    );
    expect(it.ask('FCALL', 'next', '1', 'k')).toContain('script: next, on @user_function:5.');
    expect(it.ask('FCALL', 'nope', '0')).toBe('-ERR Function not found\r\n');
    expect(it.ask('FCALL', 'next', 'x')).toBe('-ERR Bad number of keys provided\r\n');
  });

  it('are listed, replaced and deleted', () => {
    const it = loaded();
    expect(it.ask('FUNCTION', 'LIST', 'LIBRARYNAME', 'COUNT*', 'WITHCODE')).toContain(COUNTER);
    expect(it.ask('FUNCTION', 'LIST', 'LIBRARYNAME', 'x')).toBe('*0\r\n');
    it.ask('FCALL', 'next', '1', 'k', 'x');
    expect(it.ask('FUNCTION', 'LOAD', 'REPLACE', COUNTER)).toBe('$7\r\ncounter\r\n');
    expect(it.ask('FCALL', 'next', '1', 'k', 'x')).toContain(':1\r\n');
    expect(it.ask('FUNCTION', 'DELETE', 'counter')).toBe('+OK\r\n');
    expect(it.ask('FUNCTION', 'DELETE', 'counter')).toBe('-ERR Library not found\r\n');
    expect(it.ask('FCALL', 'next', '1', 'k', 'x')).toBe('-ERR Function not found\r\n');
    expect(it.ask('FUNCTION', 'FLUSH')).toBe('+OK\r\n');
  });
});
