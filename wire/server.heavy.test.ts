import { beforeAll, describe, expect, it } from 'vitest';
import { loadLua } from './index.js';
import { Bench, type Client } from './testing/client.js';

const client = (): Client => new Bench().connect();

describe('requests', () => {
  it('come in pieces, in pipelines, and as lines of words', () => {
    const it = client();
    expect(it.raw('*1\r\n$4\r\nPI')).toBe('');
    expect(it.raw('NG\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n')).toBe('+PONG\r\n$2\r\nhi\r\n');
    expect(it.raw('SET a "b c\\x41"\r\nGET a\n\r\n')).toBe('+OK\r\n$4\r\nb cA\r\n');
  });

  it.each([
    ['*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n', "-ERR Protocol error: expected '$', got 'f'\r\n"],
    ['*100000000000\r\n', '-ERR Protocol error: invalid multibulk length\r\n'],
    ['*1\r\n$-10\r\n', '-ERR Protocol error: invalid bulk length\r\n'],
    ['SET "a\r\n', '-ERR Protocol error: unbalanced quotes in request\r\n'],
  ])('that break the protocol are answered, and the connection is closed: %j', (bytes, answer) => {
    const it = client();
    expect(it.raw(bytes)).toBe(answer);
    expect(it.closed).toBe(true);
  });

  it.each([
    [['PEXPIRE', 'k', '9000', 'foo'], '-ERR Unsupported option foo\r\n'],
    [['GET', 'a', 'b'], "-ERR wrong number of arguments for 'get' command\r\n"],
    [['CLIENT', 'anything'], "-ERR unknown subcommand 'anything'. Try CLIENT HELP.\r\n"],
    [['NOPE', 'x'], "-ERR unknown command 'NOPE', with args beginning with: 'x' \r\n"],
    [['SET', 'a', 'b', 'NX', 'XX'], '-ERR syntax error\r\n'],
    [['SCAN', '-'], '-ERR invalid cursor\r\n'],
    [['SCAN', ''], '*2\r\n$1\r\n0\r\n*0\r\n'],
    [['SET', 'a', 'b', 'EX', '0'], "-ERR invalid expire time in 'set' command\r\n"],
    [['CLIENT', 'SETINFO', 'LIB-NAME', 'x'], "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n"],
  ])('that are wrong are refused in the words of Redis: %j', (argv, answer) => {
    expect(client().ask(...argv)).toBe(answer);
  });
});

describe('a connection', () => {
  it('speaks RESP3 after HELLO', () => {
    const it = client();
    it.ask('HSET', 'h', 'f', 'v');
    expect(it.ask('HGETALL', 'h')).toBe('*2\r\n$1\r\nf\r\n$1\r\nv\r\n');
    expect(it.ask('HELLO', '3')).toContain('$5\r\nproto\r\n:3\r\n');
    expect(it.ask('HGETALL', 'h')).toBe('%1\r\n$1\r\nf\r\n$1\r\nv\r\n');
    expect(it.ask('GET', 'nothing')).toBe('_\r\n');
    expect(it.ask('HELLO', '4')).toBe('-NOPROTO unsupported protocol version\r\n');
  });

  it('authenticates where it has to', () => {
    const it = new Bench({ password: 'p' }).connect();
    expect(it.ask('GET', 'a')).toBe('-NOAUTH Authentication required.\r\n');
    expect(it.ask('AUTH', 'x')).toContain('-WRONGPASS');
    expect(it.ask('HELLO', '2', 'AUTH', 'default', 'p', 'SETNAME', 'me')).toContain('server');
    expect(it.ask('CLIENT', 'GETNAME')).toBe('$2\r\nme\r\n');
  });

  it('is silent where it asked for silence', () => {
    const it = client();
    expect(it.ask('CLIENT', 'REPLY', 'SKIP')).toBe('');
    expect(it.ask('SET', 'a', '1')).toBe('');
    expect(it.ask('GET', 'a')).toBe('$1\r\n1\r\n');
    expect(it.ask('CLIENT', 'REPLY', 'OFF')).toBe('');
    expect(it.ask('GET', 'a')).toBe('');
    expect(it.ask('CLIENT', 'REPLY', 'ON')).toBe('+OK\r\n');
  });

  it('is told of its subscriptions all the same', () => {
    const it = client();
    it.ask('CLIENT', 'REPLY', 'OFF');
    expect(it.ask('SUBSCRIBE', 'c')).toBe('*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n');
    expect(it.ask('PING')).toBe('');
  });

  it('has a database of its own choice', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    one.ask('SELECT', '1');
    one.ask('SET', 'a', '1');
    expect(two.ask('GET', 'a')).toBe('$-1\r\n');
    expect(one.ask('SELECT', '16')).toBe('-ERR DB index is out of range\r\n');
  });
});

describe('scores', () => {
  it('have a negative zero where a set is in its large form, and where it is made for an answer', () => {
    const it = client();
    it.ask('ZADD', 'z', '-1', 'm');
    expect(it.ask('ZUNION', '1', 'z', 'WEIGHTS', '0', 'WITHSCORES')).toBe('*2\r\n$1\r\nm\r\n$2\r\n-0\r\n');
    it.ask('ZUNIONSTORE', 's', '1', 'z', 'WEIGHTS', '0');
    expect(it.ask('ZSCORE', 's', 'm')).toBe('$1\r\n0\r\n');
    it.ask('ZADD', 'z', '1', 'n'.repeat(65));
    it.ask('ZADD', 'z', '-0', 'm');
    expect(it.ask('ZSCORE', 'z', 'm')).toBe('$2\r\n-0\r\n');
  });
});

describe('transactions', () => {
  it('carry out what was queued, unless a command was refused or a watched key was changed', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    one.ask('MULTI');
    expect(one.ask('INCR', 'n')).toBe('+QUEUED\r\n');
    expect(one.ask('EXEC')).toBe('*1\r\n:1\r\n');
    one.ask('MULTI');
    one.ask('GET');
    expect(one.ask('EXEC')).toBe('-EXECABORT Transaction discarded because of previous errors.\r\n');
    one.ask('WATCH', 'n');
    one.ask('MULTI');
    one.ask('INCR', 'n');
    two.ask('SET', 'n', '7');
    expect(one.ask('EXEC')).toBe('*-1\r\n');
    expect(one.ask('GET', 'n')).toBe('$1\r\n7\r\n');
  });

  it('do not notice that databases were exchanged in which a watched key has expired', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    two.ask('SELECT', '1');
    two.ask('SET', 'a', '1', 'PX', '10');
    bench.nowUs += 11_000;
    one.ask('WATCH', 'a');
    two.ask('SWAPDB', '0', '1');
    one.ask('MULTI');
    one.ask('PING');
    expect(one.ask('EXEC')).toBe('*1\r\n+PONG\r\n');
  });

  it('notice that a watched key has expired', () => {
    const bench = new Bench();
    const it = bench.connect();
    it.ask('SET', 'a', '1', 'PX', '10');
    it.ask('WATCH', 'a');
    it.ask('MULTI');
    it.ask('PING');
    bench.nowUs += 11_000;
    expect(it.ask('EXEC')).toBe('*-1\r\n');
  });
});

describe('time', () => {
  it('is that of the clock handed in: a key goes a millisecond after its time, as in Redis', () => {
    const bench = new Bench();
    const it = bench.connect();
    it.ask('SET', 'a', '1', 'PX', '10');
    bench.nowUs += 10_999;
    expect(it.ask('PTTL', 'a')).toBe(':0\r\n');
    bench.nowUs += 1;
    expect(it.ask('DBSIZE')).toBe(':0\r\n');
    expect(it.ask('PTTL', 'a')).toBe(':-2\r\n');
    expect(it.ask('TIME')).toBe('*2\r\n$10\r\n1700000000\r\n$5\r\n11000\r\n');
  });

  it('ends the waiting of commands, in the order of their coming', () => {
    const bench = new Bench();
    const [one, two, three] = [bench.connect(), bench.connect(), bench.connect()];
    expect(one.ask('BLPOP', 'l', '1')).toBe('');
    expect(two.ask('BLPOP', 'l', '0')).toBe('');
    expect(bench.server.nextTimeoutUs()).toBe(bench.nowUs + 1_000_000);
    three.ask('RPUSH', 'l', 'x');
    expect(one.received).toBe('*2\r\n$1\r\nl\r\n$1\r\nx\r\n');
    expect(one.ask('BZPOPMIN', 'z', '0.5')).toBe('');
    bench.nowUs += 500_000;
    bench.server.expireWaiting();
    expect(one.received).toBe('*-1\r\n');
    expect(two.received).toBe('');
  });
});

describe('commands that wait', () => {
  it('are served from the key that has changed, whatever else they wait for', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    one.ask('BLPOP', 'a', 'b', '0');
    two.ask('SET', 'a', 'no list');
    two.ask('RPUSH', 'b', 'x');
    expect(one.received).toBe('*2\r\n$1\r\nb\r\n$1\r\nx\r\n');
  });

  it('let those come that were sent meanwhile, however the waiting ends', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    one.raw('BLPOP l 1\r\nCLIENT ID\r\n');
    bench.nowUs += 1_000_000;
    bench.server.expireWaiting();
    expect(one.received).toBe('*-1\r\n:1\r\n');
    one.raw('BLPOP l 0\r\nPING\r\n');
    expect(two.ask('CLIENT', 'UNBLOCK', '1')).toBe(':1\r\n');
    expect(one.received).toBe('*-1\r\n+PONG\r\n');
  });

  it('are told where they cannot move what has come', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    two.ask('SET', 'to', 'no list');
    one.ask('BLMOVE', 'from', 'to', 'LEFT', 'LEFT', '0');
    two.ask('SET', 'from', 'no list');
    expect(one.received).toBe('');
    two.ask('DEL', 'from');
    two.ask('RPUSH', 'from', 'x');
    expect(one.received).toContain('-WRONGTYPE');
    expect(two.ask('LLEN', 'from')).toBe(':1\r\n');
  });
});

describe('what is said of commands', () => {
  it('is where their keys are', () => {
    const it = client();
    const keys = (...argv: readonly string[]): string => it.ask('COMMAND', 'GETKEYS', ...argv);
    expect(keys('MSET', 'a', '1', 'b', '2')).toBe('*2\r\n$1\r\na\r\n$1\r\nb\r\n');
    expect(keys('EVAL', 'return 1', '1', 'a', 'x')).toBe('*1\r\n$1\r\na\r\n');
    expect(keys('ZUNIONSTORE', 'a', '1', 'b')).toBe('*2\r\n$1\r\na\r\n$1\r\nb\r\n');
    expect(keys('MEMORY', 'USAGE', 'a')).toBe('*1\r\n$1\r\na\r\n');
    expect(keys('PING', 'x')).toBe('-ERR The command has no key arguments\r\n');
    expect(keys('EVAL', 'return 1', '2', 'a')).toBe('*0\r\n');
    expect(keys('ZUNION', '2', 'a')).toBe('-ERR Invalid arguments specified for command\r\n');
    expect(keys('GET', 'a', 'b')).toBe('-ERR Invalid number of arguments specified for command\r\n');
  });

  it('is their arity and their place in a list, of the edition', () => {
    const it = client();
    expect(it.ask('COMMAND', 'INFO', 'get', 'nope')).toMatch(/^\*2\r\n\*10\r\n\$3\r\nget\r\n:2\r\n.*\$-1\r\n$/s);
    expect(it.ask('COMMAND', 'LIST', 'FILTERBY', 'PATTERN', 'client|no-*')).toBe('*1\r\n$15\r\nclient|no-evict\r\n');
    expect(it.ask('COMMAND', 'LIST', 'FILTERBY')).toBe('-ERR syntax error\r\n');
    expect(it.ask('COMMAND')).not.toContain('delex');
  });
});

describe('publishing', () => {
  it('reaches those who listen, and they may do little else in RESP2', () => {
    const bench = new Bench();
    const [one, two] = [bench.connect(), bench.connect()];
    expect(one.ask('SUBSCRIBE', 'c')).toBe('*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n');
    expect(two.ask('PUBLISH', 'c', 'm')).toBe(':1\r\n');
    expect(one.received).toContain('*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n');
    expect(one.ask('GET', 'a')).toContain("-ERR Can't execute 'get'");
    expect(one.ask('UNSUBSCRIBE')).toContain(':0\r\n');
  });
});

describe('later editions', () => {
  const redis84 = (): Client => new Bench({ edition: { flavour: 'redis', version: '8.4.0' } }).connect();

  it('compare and set, and compare and delete', () => {
    const it = redis84();
    it.ask('SET', 'a', 'Hello world');
    expect(it.ask('DIGEST', 'a')).toBe('$16\r\nb6acb9d84a38ff74\r\n');
    expect(it.ask('SET', 'a', 'x', 'IFEQ', 'y')).toBe('$-1\r\n');
    expect(it.ask('SET', 'a', 'x', 'IFDEQ', 'b6acb9d84a38ff74')).toBe('+OK\r\n');
    expect(it.ask('SET', 'b', 'x', 'IFEQ', 'y')).toBe('$-1\r\n');
    expect(it.ask('SET', 'b', 'x', 'IFNE', 'y')).toBe('+OK\r\n');
    expect(it.ask('DELEX', 'a', 'IFNE', 'x')).toBe(':0\r\n');
    expect(it.ask('DELEX', 'a', 'IFEQ', 'x')).toBe(':1\r\n');
    expect(it.ask('SET', 'a', 'x', 'NX', 'IFEQ', 'y')).toBe('-ERR syntax error\r\n');
  });

  it('are what a node has, and no other one', () => {
    expect(client().ask('SET', 'a', 'x', 'IFEQ', 'y')).toBe('-ERR syntax error\r\n');
    expect(client().ask('DELEX', 'a')).toContain('unknown command');
    expect(redis84().ask('DELIFEQ', 'a', 'x')).toContain('unknown command');
    const valkey = new Bench({ edition: { flavour: 'valkey', version: '9.0.0' } }).connect();
    valkey.ask('SET', 'a', 'x');
    expect(valkey.ask('SET', 'a', 'y', 'IFEQ', 'x')).toBe('+OK\r\n');
    expect(valkey.ask('SET', 'a', 'y', 'IFNE', 'x')).toBe('-ERR syntax error\r\n');
    expect(valkey.ask('DELIFEQ', 'a', 'y')).toBe(':1\r\n');
  });
});

describe('scripts', () => {
  beforeAll(loadLua);

  const run = (text: string, ...argv: readonly string[]): string => client().ask('EVAL', text, '1', 'k', ...argv);

  it.each([
    ['return tostring(10/2)', '$1\r\n5\r\n'],
    ['return math.pow(2, 10)', ':1024\r\n'],
    ['return table.getn({1, 2})', ':2\r\n'],
    ['return cjson.encode({1, {a = true}, cjson.null})', '$17\r\n[1,{"a":true},null]\r\n'.replace('17', '19')],
    ['return cjson.decode(\'{"a":[1,2]}\').a[2]', ':2\r\n'],
    ['return bit.band(12, 10)', ':8\r\n'],
    ["return #cmsgpack.pack({1, 'x'})", ':4\r\n'],
    ["return {cmsgpack.unpack_one(cmsgpack.pack('a', 'b'))}", '*2\r\n:2\r\n$1\r\na\r\n'],
    ["return {cmsgpack.unpack_limit(cmsgpack.pack('a', 'b'), 1, 2)}", '*2\r\n:-1\r\n$1\r\nb\r\n'],
    ['return loadstring(string.dump(function() return 1 end)) or 0', ':0\r\n'],
    ['return load(function() return string.dump(function() end) end) or 0', ':0\r\n'],
    ["return loadstring('return 7')()", ':7\r\n'],
    ['\x1bLua', '-ERR Error compiling script (new function): user_script:1: unexpected symbol'],
    ["return {struct.unpack('>I2', '\\1\\2')}", '*2\r\n:258\r\n:3\r\n'],
    ["redis.setresp(3) redis.call('HSET', 'h', 'a', 'b') return redis.call('HGETALL', 'h').map.a", '$1\r\nb\r\n'],
    ["return redis.pcall('LPUSH')", '-ERR Wrong number of args calling Redis command from script\r\n'],
    ["return redis.call('BLPOP', 'k', 0)", '-ERR This Redis command is not allowed from script'],
    ['return undefined', "-ERR user_script:1: Script attempted to access nonexistent global variable 'undefined'"],
  ])('say what they say in Redis: %s', (text, answer) => {
    expect(run(text).startsWith(answer)).toBe(true);
  });

  it.each([
    'return _G',
    "setmetatable({}, {__index = function() error('x') end}).a = 1 return {setmetatable({}, {__index = error})}",
    'string.rep = nil',
    'redis.call = nil',
    '_G.tostring = nil',
    "rawset(_G, 'x', 1)",
    'rawset(string, "rep", 1)',
    'getmetatable("").__index = nil',
    "table.insert(string, 'left behind')",
    "table.insert(_G, 'left behind')",
    "getmetatable(string)['ta' .. 'ble'].insert(string, 'left behind')",
    'setmetatable(_G, {})',
    'local f = function() return f() end return f()',
    'local t = {} t.t = t return t',
    'error({})',
    'while true do end',
    'while true do pcall(function() while true do end end) end',
    'coroutine.wrap(function() while true do end end)()',
    'while true do pcall(coroutine.wrap(function() for i = 1, 1e5 do end end)) end',
  ])('leave nothing behind for the next: %s', (text) => {
    const it = client();
    it.ask('EVAL', text, '0');
    const next =
      "return {type(redis.call), string.rep('x', 2), ('y'):rep(2), type(tostring), rawget(string, 1) or 'clean', rawget(_G, 1) or 'clean'}";
    expect(it.ask('EVAL', next, '0')).toBe(
      '*6\r\n$8\r\nfunction\r\n$2\r\nxx\r\n$2\r\nyy\r\n$8\r\nfunction\r\n$5\r\nclean\r\n$5\r\nclean\r\n',
    );
  });

  it('may end with a table that has no end', () => {
    expect(run('local a = {} local b = {a} a[1] = b return a')).toMatch(/^(\*1\r\n)+-ERR reached lua stack limit\r\n$/);
  });

  it('are in the cache after EVAL and SCRIPT LOAD', () => {
    const it = client();
    const sha = 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db';
    expect(it.ask('EVALSHA', sha, '0')).toBe('-NOSCRIPT No matching script. Please use EVAL.\r\n');
    expect(it.ask('SCRIPT', 'LOAD', 'return 1')).toBe(`$40\r\n${sha}\r\n`);
    expect(it.ask('EVALSHA', sha.toUpperCase(), '0')).toBe(':1\r\n');
    expect(it.ask('SCRIPT', 'EXISTS', sha, 'x')).toBe('*2\r\n:1\r\n:0\r\n');
  });

  it('raise and catch errors any number of times', () => {
    const text = "local n = 0 for i = 1, 2000 do if not pcall(redis.call, 'NOPE') then n = n + 1 end end return n";
    const it = client();
    expect(it.ask('EVAL', text, '0')).toBe(':2000\r\n');
    expect(it.ask('EVAL', text, '0')).toBe(':2000\r\n');
  });
});
