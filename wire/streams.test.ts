import { expect, it } from 'vitest';
import { Bench } from './testing/client.js';

/** What each command of a session is answered. */
function answers(...commands: readonly string[]): string[] {
  const client = new Bench().connect();
  return commands.map((it) => client.ask(...it.split(' ')));
}

it('numbers entries by the clock, and those of one ms one after the other', () => {
  expect(answers('XADD log * a 1', 'XADD log * a 2', 'XLEN log', 'TYPE log')).toEqual([
    '$15\r\n1700000000000-0\r\n',
    '$15\r\n1700000000000-1\r\n',
    ':2\r\n',
    '+stream\r\n',
  ]);
});

it('keeps entries in the order of their IDs, which only rise', () => {
  const [, , same, zero, open] = answers(
    'XADD log 5 a 1',
    'XADD log 7-3 a 2',
    'XADD log 7-3 a 3',
    'XADD log 0-0 a 3',
    'XADD log 7-* a 4',
  );
  expect(same).toBe('-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n');
  expect(zero).toBe('-ERR The ID specified in XADD must be greater than 0-0\r\n');
  expect(open).toBe('$3\r\n7-4\r\n');
});

it('reads ranges, forwards and backwards', () => {
  const added = ['XADD log 5-1 a 1', 'XADD log 6-1 b 2'];
  const entry = (id: string, field: string, value: string): string =>
    `*2\r\n$3\r\n${id}\r\n*2\r\n$1\r\n${field}\r\n$1\r\n${value}\r\n`;
  const one = entry('5-1', 'a', '1');
  const two = entry('6-1', 'b', '2');
  const [, , all, after, last] = answers(...added, 'XRANGE log - +', 'XRANGE log (5-1 +', 'XREVRANGE log + - COUNT 1');
  expect(all).toBe(`*2\r\n${one}${two}`);
  expect(after).toBe(`*1\r\n${two}`);
  expect(last).toBe(`*1\r\n${two}`);
});

it('is trimmed, loses entries, and stays when it is empty', () => {
  const added = ['XADD log 1 a 1', 'XADD log 2 a 2', 'XADD log 3 a 3'];
  expect(
    answers(
      ...added,
      'XTRIM log MAXLEN 2',
      'XDEL log 2 9',
      'XADD log MAXLEN = 1 4 a 4',
      'XLEN log',
      'XDEL log 4',
      'EXISTS log',
    ).slice(3),
  ).toEqual([':1\r\n', ':1\r\n', '$3\r\n4-0\r\n', ':1\r\n', ':1\r\n', ':1\r\n']);
});

it('is no string, and a string is none', () => {
  const [, get, , add] = answers('XADD log * a 1', 'GET log', 'SET text x', 'XADD text * a 1');
  expect(get).toMatch(/^-WRONGTYPE/);
  expect(add).toMatch(/^-WRONGTYPE/);
});

it('goes on in the next millisecond after the last sequence number, and does not add where there is no ID left', () => {
  const most = '18446744073709551615';
  const [, next] = answers(`XADD log 2577343934890-${most} a 1`, 'XADD log * a 2');
  expect(next).toBe('$15\r\n2577343934891-0\r\n');
  const [, same] = answers(`XADD log 1-${most} a 1`, 'XADD log 1-* a 2');
  expect(same).toBe('-ERR Elements are too large to be stored\r\n');
  const [, none] = answers(`XADD log ${most}-${most} a 1`, 'XADD log * a 2');
  expect(none).toContain('exhausted the last possible ID');
});

it('removes whole nodes where a trim is approximate, and no more entries than its limit', () => {
  const add = Array.from({ length: 100 }, () => 'XADD log * a 1');
  const small = 'CONFIG SET stream-node-max-entries 10';
  const last = (...commands: readonly string[]): string | undefined => answers(small, ...add, ...commands).at(-1);
  expect(last('XTRIM log MAXLEN ~ 85')).toBe(':10\r\n');
  expect(last('XTRIM log MAXLEN ~ 55 LIMIT 30')).toBe(':30\r\n');
  expect(last('XTRIM log MAXLEN ~ 0 LIMIT 0')).toBe(':100\r\n');
  expect(last('XTRIM log MAXLEN 1')).toBe(':99\r\n');
});
