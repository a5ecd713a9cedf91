import { beforeAll, expect, test } from 'vitest';
import { loadLua } from '../../wire/index.js';
import { Effects } from './effect.js';

beforeAll(loadLua);

const ACQUIRING = { isAcquiring: true, acquiredBy: null };
const HOLDING = { isAcquiring: false, acquiredBy: null };

const ONE_FOR_ALL = `local value = redis.call('GET', KEYS[1])
if ARGV[1] == 'lock' then
  if value then return 0 end
  redis.call('SET', KEYS[1], ARGV[2])
  return redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if value ~= ARGV[2] then return 0 end
if ARGV[1] == 'renew' then return redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return redis.call('DEL', KEYS[1])`;

test.each([
  ['lock', true, { operation: 'acquire', keys: ['a'], value: 'f00', ttlMs: 900 }],
  ['renew', false, { operation: 'extend', keys: ['a'], value: 'f00', ttlMs: 900 }],
  ['unlock', false, { operation: 'release', keys: ['a'], value: 'f00', ttlMs: 0 }],
  ['unlock', true, { operation: 'release', keys: ['a'], value: 'f00', ttlMs: 0 }],
])('a script for everything is known by what it does: %s', (operation, isAcquiring, effect) => {
  expect(
    new Effects().ofScript(ONE_FOR_ALL, ['1', 'a', operation, 'f00', '900'], isAcquiring ? ACQUIRING : HOLDING),
  ).toEqual(effect);
});

test('a counter that comes to what an argument is, is not the key', () => {
  const script = `local ticket = redis.call('incr', KEYS[1])
    redis.call('zadd', KEYS[2], ARGV[3], ARGV[1])
    return 1`;
  const given = ['2', 'tickets', 'holders', 'f00', '1', '900'];
  expect(new Effects().ofScript(script, given, ACQUIRING)?.keys).toEqual(['holders']);
});

test.each([
  ['return 0', 'return 1', true],
  ['return nil', "return redis.call('pttl', KEYS[1])", true],
  ['return 1', 'return 0', undefined],
  ['return 0', 'return 0', undefined],
])('a script that acquires with %s, and refuses with %s', (acquired, refused, isInverted) => {
  const script = `if redis.call('exists', KEYS[1]) == 1 then ${refused} end redis.call('set', KEYS[1], ARGV[1]) ${acquired}`;
  expect(new Effects().ofScript(script, ['1', 'a', 'f00'], ACQUIRING)?.isInverted).toBe(isInverted);
});

test('a value may be a number, and a TTL none', () => {
  const set = "return redis.call('set', KEYS[1], ARGV[1], 'nx')";
  const effects = new Effects();
  expect(effects.ofScript(set, ['1', 'a', '42'], ACQUIRING)).toEqual({
    operation: 'acquire',
    keys: ['a'],
    value: '42',
    ttlMs: 0,
  });
});

test.each([
  ['now + ARGV[2]', 900],
  ['ARGV[2]', 1_900],
])('a member of a sorted set ends with its score where that is a time: %s', (score, ttlMs) => {
  const set = `local now = redis.call('TIME')[1] * 1000
redis.call('zadd', KEYS[1], ${score}, ARGV[1]) return redis.call('pexpire', KEYS[1], ARGV[2] + 1000)`;
  expect(new Effects().ofScript(set, ['1', 'a', 'f00', '900'], ACQUIRING)).toMatchObject({
    value: 'f00',
    ttlMs,
  });
});

test.each(['hset', 'sadd', 'rpush', 'zadd'])('a value may be in a collection: %s', (command) => {
  const rest = command === 'hset' ? 'ARGV[2], 1' : command === 'zadd' ? '1, ARGV[2]' : 'ARGV[2]';
  const set = `redis.call('${command}', KEYS[1], ${rest}) return redis.call('pexpire', KEYS[1], ARGV[1])`;
  expect(new Effects().ofScript(set, ['1', 'a', '900', 'f00'], ACQUIRING)).toEqual({
    operation: 'acquire',
    keys: ['a'],
    value: 'f00',
    ttlMs: 900,
  });
});

test('what a script does with one token it does with another', () => {
  const effects = new Effects();
  const set = "return redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])";
  for (const value of ['5f7c01d2-93ab-4f00', 'a81b77d0-0000-4f11'])
    expect(effects.ofScript(set, ['1', 'a', value, '900'], ACQUIRING)).toEqual({
      operation: 'acquire',
      keys: ['a'],
      value,
      ttlMs: 900,
    });
});

test('what a script makes of a token is found for each', () => {
  const effects = new Effects();
  const set = "return redis.call('set', KEYS[1], 'by ' .. string.sub(ARGV[1], 1, 4))";
  const stored = (token: string): unknown => effects.ofScript(set, ['1', 'a', token], ACQUIRING)?.value;
  expect([stored('5f7c01d2-93ab-4f00'), stored('a81b77d0-0000-4f11')]).toEqual(['by 5f7c', 'by a81b']);
});

test('nothing is said of a script that only looks, or fails', () => {
  const effects = new Effects();
  expect(effects.ofScript("return redis.call('get', KEYS[1])", ['1', 'a', 'f00'], ACQUIRING)).toBeNull();
  expect(effects.ofScript('return redis.call(', ['1', 'a', 'f00'], ACQUIRING)).toBeNull();
});

test('what a script does is found for the keys and the token that it is given, whatever was asked before', () => {
  const release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
  const effects = new Effects();
  const tokens = ['b1c6f1d2-6f55-4b9e-9d38-2f1f5b1f9a01', 'b1c6f1d2-6f55-4b9e-9d38-2f1f5b1f9a02'];
  for (const value of [tokens[0], tokens[0], tokens[1]])
    expect(effects.ofScript(release, ['1', 'a', value ?? ''], HOLDING)).toMatchObject({
      keys: ['a'],
      value,
    });
  expect(effects.ofScript(release, ['1', 'b', tokens[1] ?? ''], HOLDING)).toMatchObject({ keys: ['b'] });
  const set = "return redis.call('set', KEYS[1], ARGV[1])";
  expect(effects.ofScript(set, ['1', 'b', tokens[1] ?? ''], HOLDING)?.operation).toBe('extend');
  expect(effects.ofScript(set, ['1', 'b', tokens[1] ?? ''], ACQUIRING)?.operation).toBe('acquire');
});

const BY_FIELD = "return redis.call('hset', KEYS[1], 'owner', ARGV[1]) + redis.call('pexpire', KEYS[1], ARGV[2])";
const BY_SCORE = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1]) return redis.call('pexpire', KEYS[1], ARGV[2] + 1000)`;
const IF_OWNER = (then: string): string =>
  `if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end return ${then}`;

test.each([
  ['a field', BY_FIELD, IF_OWNER("redis.call('del', KEYS[1])"), ['f00'], 'release', 0],
  ['a field', BY_FIELD, IF_OWNER("redis.call('pexpire', KEYS[1], ARGV[2])"), ['f00', '700'], 'extend', 700],
  ['a member', BY_SCORE, "return redis.call('zrem', KEYS[1], ARGV[1])", ['f00'], 'release', 0],
  ['a member', BY_SCORE, BY_SCORE, ['f00', '700'], 'extend', 700],
])('a script is known by what it does to %s of who sends it', (_, acquire, script, args, operation, ttlMs) => {
  const acquiredBy = ['eval', acquire, '1', 'a', 'f00', '900'];
  const effect = new Effects().ofScript(script, ['1', 'a', ...args], { isAcquiring: false, acquiredBy });
  expect(effect).toEqual({ operation, keys: ['a'], value: 'f00', ttlMs });
});

test('a count in a field is not taken for a value', () => {
  const acquire = "return redis.call('hset', KEYS[1], ARGV[1], 1) + redis.call('pexpire', KEYS[1], ARGV[2])";
  const renew = "return redis.call('hexists', KEYS[1], ARGV[1]) == 1 and redis.call('pexpire', KEYS[1], ARGV[2])";
  const sender = { isAcquiring: false, acquiredBy: ['eval', acquire, '1', 'a', 'f00', '900'] };
  const effect = { operation: 'extend', keys: ['a'], value: 'f00', ttlMs: 900 };
  expect(new Effects().ofScript(renew, ['1', 'a', 'f00', '900'], sender)).toEqual(effect);
});

test.each([
  ['zrem', { operation: 'release', keys: ['a'], value: 'f00', ttlMs: 0 }],
  ['zscore', null],
])('%s is known by what it does to a member', (name, effect) => {
  const acquiredBy = ['eval', BY_SCORE, '1', 'a', 'f00', '900'];
  expect(new Effects().afterAcquiring([name, 'a', 'f00'], acquiredBy)).toEqual(effect);
});

test("what belongs to another's token is none of its own", () => {
  const acquiredBy = ['eval', BY_FIELD, '1', 'a', 'ba5', '900'];
  const release = IF_OWNER("redis.call('del', KEYS[1])");
  expect(new Effects().ofScript(release, ['1', 'a', 'f00'], { isAcquiring: false, acquiredBy })).toBe(null);
});

test('a script that makes its value of a counter stores none of its arguments, in the key that ends', () => {
  const begin = `if redis.call('exists', KEYS[1]) == 1 then return 0 end
local fence = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], fence, 'PX', ARGV[1])
return fence`;
  const effect = { operation: 'acquire', keys: ['a'], value: null, ttlMs: 900 };
  expect(new Effects().ofScript(begin, ['2', 'a', 'a:fence', '900'], ACQUIRING)).toEqual(effect);
});

test('a hash may stay when a lock in it is released, by its token', () => {
  const acquire = ['eval', "redis.call('hset', KEYS[1], 'token', ARGV[1], 'by', ARGV[2])", '1', 'a', 'f00', 'desk'];
  const after = (script: string): unknown => new Effects().afterAcquiring(['eval', script, '1', 'a', 'f00'], acquire);
  const del = "if redis.call('hget', KEYS[1], 'token') == ARGV[1] then redis.call('hdel', KEYS[1], 'token') end";
  expect(after(del)).toEqual({ operation: 'release', keys: ['a'], value: 'f00', ttlMs: 0 });
  expect(after("return redis.call('hget', KEYS[1], 'token') == ARGV[1]")).toBeNull();
});

test('an extension that stores another value says so, and one that stores the same does not', () => {
  const finish = `local now = redis.call('get', KEYS[1])
if now == false or now == ARGV[1] then redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3]) return 1 end return 0`;
  const [given, own] = [
    ['1', 'a', 'f00', 'done', '900'],
    ['1', 'a', 'f00', 'f00', '900'],
  ];
  const after = { isAcquiring: false, acquiredBy: ['SET', 'a', 'f00', 'NX', 'PX', '100'] };
  for (const sender of [HOLDING, after]) {
    expect(new Effects().ofScript(finish, given, sender)).toMatchObject({ operation: 'extend', replaces: true });
    expect(new Effects().ofScript(finish, own, sender)).not.toHaveProperty('replaces');
  }
});

test.each([[['SUBSCRIBE', 'a']], [['MULTI']], [['BLPOP', 'a', '0']]])(
  'what a command makes of its connection is gone for the next script: %j',
  (command) => {
    const effects = new Effects();
    effects.ofScript(ONE_FOR_ALL, ['1', 'a', 'renew', 'f00', '900'], { isAcquiring: false, acquiredBy: command });
    effects.afterAcquiring(command, ['SET', 'a', 'f00', 'NX', 'PX', '100']);
    expect(effects.ofScript(ONE_FOR_ALL, ['1', 'b', 'lock', 'f00', '900'], ACQUIRING)?.operation).toBe('acquire');
  },
);
