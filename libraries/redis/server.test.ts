import { beforeAll, describe, expect, it } from 'vitest';
import { plainCluster } from '../../scenarios/index.js';
import { type ClusterSetup, trueTime } from '../../sim/index.js';
import { SimNode } from '../../sim/node.js';
import { Observer } from '../../sim/observer.js';
import { QueueEvent } from '../../sim/queue.js';
import { RunContext } from '../../sim/run-context.js';
import { Failure, loadLua, type Reply, sha1 } from '../../wire/index.js';
import { type Sent, SimRedis } from './client.js';
import type { Site } from './node-keyspace.js';
import { toUser } from './reply.js';
import { Server } from './server.js';

beforeAll(loadLua);

/** A server whose time is moved by hand. */
class Bench {
  readonly server = new Server();
  nowMs = 0;
  private readonly context = new RunContext([], new Observer(), false);
  readonly node: SimNode;
  private readonly values = [''];

  private readonly names = {
    keyOf: (key: string): number => this.context.keyOf(key),
    tokenOf: (value: string): number => {
      const known = this.values.indexOf(value, 1);
      return known > 0 ? known : this.values.push(value) - 1;
    },
    valueOf: (token: number): string => this.values[token] ?? '?',
  };

  constructor(change: Partial<ClusterSetup> = {}) {
    this.node = new SimNode(0, { ...plainCluster(1), ...change }, this.context, () => new QueueEvent(), 0, 0);
  }

  /** A connection that is handed a line of commands, and gives what the server writes. */
  connect(): (...lines: string[]) => string {
    const site = (): Site => {
      this.context.now = trueTime(this.nowMs * 1000);
      return { node: this.node, now: this.context.now, names: this.names, by: 0 };
    };
    const bytes: string[] = [];
    const connection = this.server.connect(
      site(),
      (it) => bytes.push(it),
      () => {},
    );
    return (...lines) => {
      const requests = lines.map((it) => it.split(' '));
      this.server.receive(connection, requests, site());
      return bytes.splice(0).join('').replaceAll('\r\n', ' ').trim();
    };
  }

  run(...args: (string | number)[]): unknown {
    const reply = this.reply(...args);
    return reply instanceof Failure ? `-${reply.text}` : toUser(reply);
  }

  reply(...args: (string | number)[]): Reply {
    const now = trueTime(this.nowMs * 1000);
    this.context.now = now;
    return this.server.execute(args.map(String), { node: this.node, now, names: this.names, by: 0 });
  }

  lua(text: string, keys: readonly string[] = [], ...argv: (string | number)[]): unknown {
    return this.run('eval', text, keys.length, ...keys, ...argv);
  }
}

describe('the server', () => {
  it('sets under conditions, with each way to say a TTL', () => {
    const redis = new Bench();
    expect(redis.run('SET', 'a', '1', 'NX', 'PX', 100)).toBe('OK');
    expect(redis.run('set', 'a', '2', 'nx', 'px', 100)).toBeNull();
    expect(redis.run('set', 'b', '2', 'xx')).toBeNull();
    expect(redis.run('pttl', 'a')).toBe(100);
    redis.nowMs = 100;
    expect(redis.run('get', 'a')).toBe('1');
    redis.nowMs = 101;
    expect(redis.run('get', 'a')).toBeNull();
    expect(redis.run('set', 'a', '3', 'ex', 2, 'get')).toBeNull();
    expect(redis.run('set', 'a', '4', 'keepttl', 'get')).toBe('3');
    expect(redis.run('pttl', 'a')).toBe(2000);
    expect(redis.run('ttl', 'a')).toBe(2);
    expect(redis.run('set', 'a', '5')).toBe('OK');
    expect(redis.run('pttl', 'a')).toBe(-1);
    expect(redis.run('pttl', 'none')).toBe(-2);
    expect(redis.run('set', 'a', '1', 'px', 0)).toBe("-ERR invalid expire time in 'set' command");
    expect(redis.run('set', 'a', '1', 'px', 'x')).toBe('-ERR value is not an integer or out of range');
    expect(redis.run('set', 'a', '1', 'nx', 'xx')).toBe('-ERR syntax error');
    expect(redis.run('set', 'a', '1', 'px')).toBe('-ERR syntax error');
  });

  it('moves expiry and deletes', () => {
    const redis = new Bench();
    redis.run('psetex', 'a', 100, 'x');
    expect(redis.run('pexpire', 'a', 50, 'GT')).toBe(0);
    expect(redis.run('pexpire', 'a', 50, 'LT')).toBe(1);
    expect(redis.run('pexpire', 'a', 70, 'NX')).toBe(0);
    expect(redis.run('pexpire', 'none', 70)).toBe(0);
    expect(redis.run('persist', 'a')).toBe(1);
    expect(redis.run('persist', 'a')).toBe(0);
    expect(redis.run('pexpire', 'a', 0)).toBe(1);
    expect(redis.run('exists', 'a')).toBe(0);
    redis.run('set', 'a', '1');
    redis.run('set', 'b', '2');
    expect(redis.run('mget', 'a', 'b', 'c')).toEqual(['1', '2', null]);
    expect(redis.run('del', 'a', 'b', 'c')).toBe(2);
    expect(redis.run('incr', 'n')).toBe(1);
    expect(redis.run('incrby', 'n', 4)).toBe(5);
    expect(redis.run('getdel', 'n')).toBe('5');
  });

  it('says what it does not know, and what is missing', () => {
    const redis = new Bench();
    expect(redis.run('subscribe', 'a')).toBe("-ERR unknown command 'subscribe', with args beginning with: 'a' ");
    expect(redis.run('get')).toBe("-ERR wrong number of arguments for 'get' command");
  });

  it('runs scripts, by text and by SHA-1, and forgets them in a restart', () => {
    const redis = new Bench();
    const text = "return redis.call('set', KEYS[1], ARGV[1])";
    const sha = sha1(text);
    expect(redis.run('evalsha', sha, 1, 'a', 'x')).toBe('-NOSCRIPT No matching script. Please use EVAL.');
    expect(redis.lua(text, ['a'], 'x')).toBe('OK');
    expect(redis.run('evalsha', sha.toUpperCase(), 1, 'a', 'y')).toBe('OK');
    expect(redis.run('get', 'a')).toBe('y');
    expect(redis.run('script', 'exists', sha, 'f'.repeat(40))).toEqual([1, 0]);
    redis.node.life++;
    expect(redis.run('script', 'exists', sha)).toEqual([0]);
    expect(redis.run('script', 'load', text)).toBe(sha);
    expect(redis.run('evalsha', sha, 1, 'a', 'z')).toBe('OK');
  });

  it('converts what goes in and out of scripts as Redis does', () => {
    const redis = new Bench();
    expect(redis.lua('return 3.99')).toBe(3);
    expect(redis.lua('return "3.99"')).toBe('3.99');
    expect(redis.lua('return true')).toBe(1);
    expect(redis.lua('return false')).toBeNull();
    expect(redis.lua('return nil')).toBeNull();
    expect(redis.lua('return {1, "b", {2}, nil, 4}')).toEqual([1, 'b', [2]]);
    expect(redis.lua('return {1, false, 3}')).toEqual([1, null, 3]);
    expect(redis.lua("return redis.status_reply('FINE')")).toBe('FINE');
    expect(redis.lua("return redis.error_reply('MINE no')")).toBe('-MINE no');
    expect(redis.lua("return redis.call('get', KEYS[1]) == false", ['none'])).toBe(1);
    expect(redis.lua("return redis.call('set', 'a', 12)['ok']")).toBe('OK');
    expect(redis.lua("redis.call('set', 'a', ARGV[1] * 2) return redis.call('get', 'a')", [], 21)).toBe('42');
    expect(redis.lua("redis.call('set', 'a', 10 / 2) return redis.call('get', 'a')")).toBe('5');
    expect(redis.lua("return redis.sha1hex('')")).toBe('da39a3ee5e6b4b0d3255bfef95601890afd80709');
    expect(redis.lua('return #KEYS + #ARGV', ['a', 'b'], 'c')).toBe(3);
    expect(redis.lua('return unpack({7, 8})')).toBe(7);
    expect(redis.lua('local n = 0 for i, key in ipairs(KEYS) do n = n + i end return n', ['a', 'b'])).toBe(3);
  });

  it('raises errors out of call, hands them over by pcall, and keeps what was written before', () => {
    const redis = new Bench();
    expect(redis.lua("redis.call('set', 'a', 1) redis.call('nope')")).toMatch(
      /^-ERR Unknown Redis command called from script script: /,
    );
    expect(redis.run('get', 'a')).toBe('1');
    expect(redis.lua("return redis.pcall('nope')['err']")).toBe('ERR Unknown Redis command called from script');
    expect(redis.lua("local it = redis.pcall('select', 3) return 5")).toBe(5);
    expect(redis.lua('return tostring(10 / 2)')).toBe('5');
    expect(redis.lua('return _G')).toEqual([]);
    expect(redis.run('pexpire', 'a', 9000, 'foo')).toBe('-ERR Unsupported option foo');
    expect(redis.run('get', 'a', 'b')).toMatch(/wrong number of arguments/);
    expect(redis.run('client', 'anything')).toMatch(/unknown subcommand/);
    expect(redis.run('blpop', 'h', 0)).toMatch(/unknown command/);
    expect(redis.run('set', 'é', 'ü')).toBe('OK');
    expect(redis.lua("return redis.call('get', KEYS[1])", ['é'])).toBe('ü');
    expect(redis.run('strlen', 'é')).toBe(2);
    expect(redis.lua('return missing')).toMatch(/nonexistent global variable 'missing'/);
    expect(redis.lua('global = 1')).toMatch(/readonly table/);
    expect(redis.lua('return (')).toMatch(/^-ERR Error compiling script/);
    expect(redis.lua("return redis.call('eval', 'return 1', 0)")).toMatch(/not allowed from script/);
    expect(redis.run('eval', 'return 1', 2, 'a')).toBe("-ERR Number of keys can't be greater than number of args");
  });
});

describe('collections', () => {
  it('are kept as Redis keeps them, with a TTL, in scripts and under other names', () => {
    const redis = new Bench();
    expect(redis.run('rpush', 'l', 'a', 'b')).toBe(2);
    expect(redis.run('lpush', 'l', 'c')).toBe(3);
    expect(redis.run('lrange', 'l', 0, -1)).toEqual(['c', 'a', 'b']);
    expect(redis.run('hset', 'h', 'f', 'é', 'g', 1)).toBe(2);
    expect(redis.run('hincrby', 'h', 'g', 4)).toBe(5);
    expect(redis.run('hgetall', 'h')).toEqual(['f', 'é', 'g', '5']);
    expect(redis.run('sadd', 's', 3, 1, 2)).toBe(3);
    expect(redis.run('smembers', 's')).toEqual(['1', '2', '3']);
    expect(redis.run('zadd', 'z', 2, 'b', 1, 'a')).toBe(2);
    expect(redis.run('zrange', 'z', 0, -1)).toEqual(['a', 'b']);
    expect(['l', 'h', 's', 'z'].map((key) => redis.run('type', key))).toEqual(['list', 'hash', 'set', 'zset']);
    expect(redis.run('get', 'l')).toMatch(/^-WRONGTYPE/);
    expect(redis.lua("redis.call('rpush', KEYS[1], 'd') return redis.call('llen', KEYS[1])", ['l'])).toBe(4);
    redis.run('pexpire', 'l', 100);
    redis.run('rename', 'l', 'm');
    redis.run('copy', 'm', 'n');
    redis.run('lpop', 'm');
    expect(redis.run('lrange', 'm', 0, -1)).toEqual(['a', 'b', 'd']);
    expect(redis.run('lrange', 'n', 0, -1)).toEqual(['c', 'a', 'b', 'd']);
    expect(redis.run('pttl', 'm')).toBe(100);
    redis.nowMs = 101;
    expect(redis.run('exists', 'm', 'n')).toBe(0);
    expect(redis.run('rpop', 'l')).toBeNull();
    redis.run('set', 'h', 'text');
    expect(redis.run('get', 'h')).toBe('text');
    expect(redis.run('srem', 's', 1, 2, 3)).toBe(3);
    expect(redis.run('keys', '*')).toEqual(['h', 'z']);
  });

  it('go back with their node to what it has kept, and over to a replica', () => {
    const redis = new Bench({ persistence: 'always' });
    redis.run('rpush', 'l', 'a');
    redis.nowMs = 1;
    redis.run('rpush', 'l', 'b');
    redis.nowMs = 2;
    redis.run('del', 'l');
    redis.node.restart(1000, trueTime(3000));
    expect(redis.run('lrange', 'l', 0, -1)).toEqual(['a', 'b']);
    redis.node.restart(0, trueTime(3000));
    expect(redis.run('lrange', 'l', 0, -1)).toEqual(['a']);
  });

  it('wake those who wait for them', () => {
    const redis = new Bench();
    const send = redis.connect();
    expect(send('BLPOP l 0')).toBe('');
    redis.run('rpush', 'l', 'a');
    const pushing = redis.connect();
    expect(pushing('RPUSH l b')).toBe(':2');
    expect(send('LLEN l')).toBe('*2 $1 l $1 a :1');
  });
});

describe('a transaction on watched keys', () => {
  const ways: readonly [string, (redis: Bench) => unknown, string][] = [
    ['nobody has changed', (redis) => redis.run('set', 'b', 'x'), '*1 :1'],
    ['another has set', (redis) => redis.run('set', 'a', 'x'), '*-1'],
    ['another has set to the same', (redis) => redis.run('set', 'a', '1'), '*-1'],
    ['another has deleted', (redis) => redis.run('del', 'a'), '*-1'],
    ['another has extended', (redis) => redis.run('pexpire', 'a', 900), '*-1'],
    ['another has changed in a script', (redis) => redis.lua("redis.call('append', KEYS[1], 1)", ['a']), '*-1'],
    ['have expired', (redis) => Object.assign(redis, { nowMs: 101 }), '*-1'],
    ['are gone as all are', (redis) => redis.run('flushall'), '*-1'],
    ['the node has lost', ({ node }) => node.lose(null, trueTime(0)), '*-1'],
  ];

  it.each(ways)('that %s', (_, change, answer) => {
    const redis = new Bench();
    redis.run('set', 'a', '1', 'px', 100);
    const send = redis.connect();
    expect(send('WATCH a', 'GET a')).toBe('+OK $1 1');
    change(redis);
    expect(send('MULTI', 'DEL a', 'EXEC')).toBe(`+OK +QUEUED ${answer}`);
  });

  it('that have expired, and were set by another', () => {
    const redis = new Bench();
    redis.run('set', 'a', '1', 'px', 100);
    const send = redis.connect();
    send('WATCH a', 'GET a');
    redis.nowMs = 200;
    expect(redis.run('set', 'a', '2', 'nx', 'px', 100)).toBe('OK');
    expect(send('MULTI', 'DEL a', 'EXEC')).toBe('+OK +QUEUED *-1');
    expect(redis.run('get', 'a')).toBe('2');
    // On another connection, and after EXEC, nothing is watched.
    expect(send('MULTI', 'DEL a', 'EXEC')).toBe('+OK +QUEUED *1 :1');
  });

  it('that were not there, and are not there', () => {
    const send = new Bench().connect();
    expect(send('WATCH a', 'MULTI', 'SET a 1', 'EXEC')).toBe('+OK +OK +QUEUED *1 +OK');
  });
});

it('gets bytes that are no text from a client as they are', async () => {
  const redis = new Bench();
  const send = (commands: readonly (readonly string[])[]): Sent => ({
    replies: Promise.resolve(commands.map((it) => redis.run(...it))),
    abandon: () => {},
  });
  const client = new SimRedis({
    name: 'n0',
    isUp: () => true,
    send,
    later: () => ({ cancel: () => {} }),
    unsupported: Error,
  });
  expect(await client.call('set', 'a', Buffer.from([0xff, 0x61]))).toBe('OK');
  expect(await client.call('strlen', 'a')).toBe(2);
  expect(redis.reply('get', 'a')).toBe('\xffa');
  // As ioredis reads it.
  expect(await client.call('get', 'a')).toBe('\ufffda');
});
