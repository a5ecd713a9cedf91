import { relative } from 'node:path';
import { expect, it } from 'vitest';
import type { Violation } from '../properties/index.js';
import type { TraceEvent } from '../sim/index.js';
import { authorsLine, decidedBy, type Frame } from './frames.js';

it.each(['/x/wild/', '/x/examples/', '/x/testing/deep/', '/x/it.test.d/'])(
  'takes no line of this project for that of an author, wherever it is: %s',
  (here) => {
    const stack = `Error: where\n    at stackNow (file://${here}libraries/frames.js:11:19)\n    at lock (/y/lock.ts:3:4)`;
    expect(authorsLine({ stack } as Error, here)).toBe(relative(process.cwd(), '/y/lock.ts:3:4'));
    const own = stack.replace('/y/lock.ts', `${here}examples/lock.ts`);
    expect(authorsLine({ stack: own } as Error, here)).toBe(relative(process.cwd(), `${here}examples/lock.ts:3:4`));
  },
);

const violation = { property: 'mutual-exclusion', clients: ['c1', 'c2'], atUs: 100 } as unknown as Violation;

function event(atUs: number, kind: string, detail: Readonly<Record<string, unknown>>): TraceEvent {
  return { atUs, kind, process: 'n0', detail: { node: 'n0', ...detail } } as unknown as TraceEvent;
}

function frame(client: string, said: string, where: string): Frame {
  return { client, node: 'n0', said, sentUs: 0, where };
}

it('takes no greeting for the command that decided', () => {
  const said = ['SET a {token} NX', 'CLIENT SETINFO LIB-NAME ioredis', 'HELLO 3; CLIENT SETNAME x'];
  const trace = said.map((it, i) => event(i, 'execute', { client: 'c2', said: it, operation: 'acquire' }));
  const frames = said.map((it, i) => frame('c2', it, `lock.ts:${i}:1`));
  expect(decidedBy(violation, trace, frames)).toBe('lock.ts:0:1   SET a {token} NX of c2');
});

it('takes what a client sends again by itself for what its author sent', () => {
  const said = 'MULTI; DEL a; EXEC';
  const trace = [event(1, 'execute', { client: 'c2', said, operation: 'release' })];
  const again: Frame = { ...frame('c2', said, ''), where: null };
  expect(decidedBy(violation, trace, [frame('c2', said, 'lock.ts:9:1'), again])).toBe(`lock.ts:9:1   ${said} of c2`);
  expect(decidedBy(violation, trace, [again])).toBe(null);
});

it('takes nothing that happened to the keys of the work for it', () => {
  const set = { client: 'c2', said: 'SET a {token} NX', operation: 'acquire' };
  const push = { client: 'c2', said: 'RPUSH log 1', operation: 'read-counter' };
  const trace = [
    event(1, 'execute', { client: 'c2', said: 'DEL a', operation: 'release' }),
    event(1, 'key-gone', { resource: 'a', how: 'deleted', owner: 'c1' }),
    event(2, 'execute', set),
    event(2, 'key-set', { resource: 'a', owner: 'c2' }),
    event(3, 'execute', push),
    event(3, 'key-gone', { resource: 'log', how: 'overwritten', owner: 'c1' }),
    event(3, 'key-set', { resource: 'log', owner: 'c2' }),
  ];
  const frames = [frame('c2', 'DEL a', 'lock.ts:9:1'), frame('c2', 'RPUSH log 1', 'lock.ts:7:1')];
  expect(decidedBy(violation, trace, frames)).toBe('lock.ts:9:1   DEL a of c2');
});
