import { expect, it } from 'vitest';
import { Bench } from './testing/client.js';

const entry = (id: string, value: string): string => `*2\r\n$3\r\n${id}\r\n*2\r\n$1\r\nf\r\n$1\r\n${value}\r\n`;
const ADDED = ['XADD log 1-1 f a', 'XADD log 2-1 f b', 'XGROUP CREATE log g 0'];

/** A session that has sent these commands, and what others are answered in it. */
function after(...commands: readonly string[]): { bench: Bench; ask: (command: string) => string } {
  const bench = new Bench();
  const client = bench.connect();
  const ask = (command: string): string => client.ask(...command.split(' '));
  for (const it of commands) ask(it);
  return { bench, ask };
}

it('gives each entry to one consumer of a group, and keeps it pending until it is acknowledged', () => {
  const { ask } = after(...ADDED);
  expect(ask('XREADGROUP GROUP g one COUNT 1 STREAMS log >')).toBe(
    `*1\r\n*2\r\n$3\r\nlog\r\n*1\r\n${entry('1-1', 'a')}`,
  );
  expect(ask('XREADGROUP GROUP g two STREAMS log >')).toContain(entry('2-1', 'b'));
  expect(ask('XREADGROUP GROUP g two STREAMS log >')).toBe('*-1\r\n');
  expect(ask('XACK log g 1-1 9-9')).toBe(':1\r\n');
  expect(ask('XREADGROUP GROUP g one STREAMS log 0')).toBe('*1\r\n*2\r\n$3\r\nlog\r\n*0\r\n');
  expect(ask('XREADGROUP GROUP g two STREAMS log 0')).toContain(entry('2-1', 'b'));
  expect(ask('XPENDING log g')).toBe('*4\r\n:1\r\n$3\r\n2-1\r\n$3\r\n2-1\r\n*1\r\n*2\r\n$3\r\ntwo\r\n$1\r\n1\r\n');
});

it('lets a consumer claim what another one has not acknowledged for long enough', () => {
  const { bench, ask } = after(...ADDED, 'XREADGROUP GROUP g one STREAMS log >', 'XDEL log 1-1');
  bench.nowUs += 5_000_000;
  expect(ask('XCLAIM log g two 5001 2-1')).toBe('*0\r\n');
  expect(ask('XCLAIM log g two 5000 2-1')).toBe(`*1\r\n${entry('2-1', 'b')}`);
  expect(ask('XAUTOCLAIM log g three 1 0')).toBe('*3\r\n$3\r\n0-0\r\n*0\r\n*1\r\n$3\r\n1-1\r\n');
  expect(ask('XAUTOCLAIM log g three 0 0')).toBe(`*3\r\n$3\r\n0-0\r\n*1\r\n${entry('2-1', 'b')}*0\r\n`);
  expect(ask('XPENDING log g - + 9')).toBe('*1\r\n*4\r\n$3\r\n2-1\r\n$5\r\nthree\r\n:0\r\n:3\r\n');
});

it('has a reader wait for an entry, and gives up when its time is over', () => {
  const bench = new Bench();
  const [reader, writer] = [bench.connect(), bench.connect()];
  expect(reader.ask('XREAD', 'BLOCK', '1000', 'STREAMS', 'log', '$')).toBe('');
  writer.ask('XADD', 'log', '1-1', 'f', 'a');
  expect(reader.received).toBe(`*1\r\n*2\r\n$3\r\nlog\r\n*1\r\n${entry('1-1', 'a')}`);
  writer.ask('XGROUP', 'CREATE', 'log', 'g', '$');
  expect(reader.ask('XREADGROUP', 'GROUP', 'g', 'one', 'BLOCK', '0', 'STREAMS', 'log', '>')).toBe('');
  writer.ask('XADD', 'log', '2-1', 'f', 'b');
  expect(reader.received).toContain(entry('2-1', 'b'));
});

it('answers with a map in RESP3', () => {
  const { ask } = after(...ADDED, 'HELLO 3');
  expect(ask('XREAD COUNT 1 STREAMS log 0')).toBe(`%1\r\n$3\r\nlog\r\n*1\r\n${entry('1-1', 'a')}`);
});

it('says what is wrong as Redis does', () => {
  const { ask } = after(...ADDED);
  expect(ask('XGROUP CREATE log g 0')).toBe('-BUSYGROUP Consumer Group name already exists\r\n');
  expect(ask('XGROUP CREATE none g $')).toMatch(/^-ERR The XGROUP subcommand requires the key to exist/);
  expect(ask('XREADGROUP GROUP h one STREAMS log >')).toBe(
    "-NOGROUP No such key 'log' or consumer group 'h' in XREADGROUP with GROUP option\r\n",
  );
  expect(ask('XREAD STREAMS log log 0')).toMatch(/^-ERR Unbalanced XREAD list of streams/);
  expect(ask('XACK log h 1-1')).toBe(':0\r\n');
});

it('sets a group back to the beginning, and to the end', () => {
  const { ask } = after(...ADDED, 'XREADGROUP GROUP g one STREAMS log >');
  expect(ask('XGROUP SETID log g -')).toBe('+OK\r\n');
  expect(ask('XREADGROUP GROUP g two STREAMS log >')).toContain(entry('1-1', 'a'));
  expect(ask('XGROUP SETID log g +')).toBe('+OK\r\n');
  ask('XADD log 3-1 f c');
  expect(ask('XREADGROUP GROUP g two STREAMS log >')).toBe('*-1\r\n');
});

it('counts one more delivery where a consumer reads its pending entries again', () => {
  const { bench, ask } = after(...ADDED, 'XREADGROUP GROUP g one STREAMS log >', 'XDEL log 1-1');
  bench.nowUs += 50_000;
  ask('XREADGROUP GROUP g one STREAMS log 0');
  const pending = (id: string, idle: number, times: number): string =>
    `*4\r\n$3\r\n${id}\r\n$3\r\none\r\n:${idle}\r\n:${times}\r\n`;
  expect(ask('XPENDING log g - + 9')).toBe(`*2\r\n${pending('1-1', 50, 1)}${pending('2-1', 0, 2)}`);
});
