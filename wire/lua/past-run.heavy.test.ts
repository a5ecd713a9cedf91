import { beforeAll, describe, expect, it } from 'vitest';
import { loadLua } from '../index.js';
import { Bench, type Client } from '../testing/client.js';
import { RecordingHost } from './past-run.js';
import type { ScriptHost } from './redis-library.js';

beforeAll(loadLua);

/** Servers in turn: what a script did on the first is known on the second. */
const two = (): [Client, Client] => [new Bench().connect(), new Bench().connect()];

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

describe('a script that another server has run with the same arguments', () => {
  it('does the same where its commands are answered alike', () => {
    const servers = two();
    for (const server of servers) server.ask('SET', 'a', 'mine');
    for (const server of servers) expect(server.ask('EVAL', RELEASE, '1', 'a', 'mine')).toBe(':1\r\n');
    for (const server of servers) expect(server.ask('EXISTS', 'a')).toBe(':0\r\n');
  });

  it('goes its own way where one is answered otherwise, and carries out none of them twice', () => {
    const [first, second] = two();
    second.ask('SET', 'n', '5');
    const script =
      "redis.call('incr', 'm') local n = redis.call('incr', KEYS[1]) redis.call('incr', 'm') return n * 10";
    expect(first.ask('EVAL', script, '1', 'n')).toBe(':10\r\n');
    expect(second.ask('EVAL', script, '1', 'n')).toBe(':60\r\n');
    for (const server of [first, second]) expect(server.ask('GET', 'm')).toBe('$1\r\n2\r\n');
    expect(second.ask('GET', 'n')).toBe('$1\r\n6\r\n');
  });

  it('finds the key of another where the first found its own', () => {
    const [first, second] = two();
    first.ask('SET', 'a', 'mine');
    second.ask('SET', 'a', 'yours');
    expect(first.ask('EVAL', RELEASE, '1', 'a', 'mine')).toBe(':1\r\n');
    expect(second.ask('EVAL', RELEASE, '1', 'a', 'mine')).toBe(':0\r\n');
    expect(second.ask('GET', 'a')).toBe('$5\r\nyours\r\n');
  });

  it('is answered lists, errors and states of its own', () => {
    const [first, second] = two();
    first.ask('RPUSH', 'l', 'x');
    second.ask('RPUSH', 'l', 'x', 'y');
    const list = "return redis.call('lrange', KEYS[1], 0, -1)";
    expect(first.ask('EVAL', list, '1', 'l')).toBe('*1\r\n$1\r\nx\r\n');
    expect(second.ask('EVAL', list, '1', 'l')).toBe('*2\r\n$1\r\nx\r\n$1\r\ny\r\n');
    const set = "local r = redis.pcall('set', KEYS[1], '1', 'NX') if r and r.ok then return r.ok end return 'no'";
    expect(first.ask('EVAL', set, '1', 's')).toBe('$2\r\nOK\r\n');
    expect(second.ask('EVAL', set, '1', 's')).toBe('$2\r\nOK\r\n');
    expect(second.ask('EVAL', set, '1', 's')).toBe('$2\r\nno\r\n');
    const wrong = "return redis.call('incr', KEYS[1])";
    second.ask('SET', 'w', '1');
    first.ask('SET', 'w', 'x');
    expect(first.ask('EVAL', wrong, '1', 'w')).toContain('not an integer');
    expect(second.ask('EVAL', wrong, '1', 'w')).toBe(':2\r\n');
    expect(first.ask('EVAL', wrong, '1', 'w')).toContain('not an integer');
  });

  it('is named in its own error', () => {
    const [first, second] = two();
    const body = "\nreturn redis.call('incr', KEYS[1])";
    const answers = ['#!lua', '#!lua flags=allow-stale'].map((shebang, i) => {
      const server = [first, second][i] ?? first;
      server.ask('SET', 'w', 'x');
      return server.ask('EVAL', shebang + body, '1', 'w');
    });
    for (const answer of answers) expect(answer).toMatch(/not an integer.* script: [0-9a-f]{40},/);
    expect(answers[0]).not.toBe(answers[1]);
  });

  it('is not kept where it sends many commands', () => {
    const many = "for i = 1, 1000 do redis.call('incr', KEYS[1]) end return redis.call('get', KEYS[1])";
    for (const server of two()) expect(server.ask('EVAL', many, '1', 'n')).toBe('$4\r\n1000\r\n');
    const host = new RecordingHost({ call: () => 1, protocol: 2 } as unknown as ScriptHost, [7]);
    expect([host.call(['incr', 'n']), host.call(['incr', 'n'])]).toEqual([7, 1]);
    expect([host.isPlain, host.steps.length]).toEqual([true, 2]);
    for (let i = 0; i < 1_000; i++) host.call(['incr', 'n']);
    expect([host.isPlain, host.steps.length]).toEqual([false, 64]);
  });

  it('draws its own numbers, and is told the time of its own server', () => {
    const server = new Bench().connect();
    const random = 'return math.random(1000000)';
    expect(server.ask('EVAL', random, '0')).not.toBe(server.ask('EVAL', random, '0'));
    const bench = new Bench();
    const timed = bench.connect();
    const time = "return redis.call('time')[1]";
    const before = timed.ask('EVAL', time, '0');
    bench.nowUs += 5_000_000;
    expect(timed.ask('EVAL', time, '0')).not.toBe(before);
  });
});
