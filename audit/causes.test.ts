import { expect, it } from 'vitest';
import type { LibraryRun } from '../libraries/run.js';
import type { Violation } from '../properties/index.js';
import type { TraceEvent } from '../sim/index.js';
import { causeOf } from './causes.js';
import { calm } from './rehearsal.js';

/** A run in which a client has sent these commands. */
function runOf(...said: readonly string[]): LibraryRun {
  const trace = said.map((it, i) => ({
    seq: i,
    atUs: i,
    kind: 'execute',
    process: 'n0',
    detail: { client: 'c1', said: it },
    cause: -1,
  }));
  return { run: { trace: trace as unknown as readonly TraceEvent[] } } as unknown as LibraryRun;
}

const failure = (property: string, ...clients: string[]): Violation =>
  ({ property, clients, atUs: 10, detail: '' }) as unknown as Violation;

it('says that a caller that hangs waits for a message that does not come', () => {
  const of = (...said: string[]): string | undefined =>
    causeOf('hang', failure('deadlock-free', 'c1'), runOf(...said), calm(1, [], 1))?.id;
  expect(of('SET a A NX', 'SUBSCRIBE free:a')).toBe('waits-for-message');
  expect(of('SET a A NX', 'BLPOP free:a 0')).toBe('waits-for-message');
  expect(of('SET a A NX', 'SET a A NX')).toBeUndefined();
});

it('says that two tasks which share a connection end the WATCH of each other', () => {
  const of = (...said: string[]): string | undefined =>
    causeOf('belief', failure('mutual-exclusion', 'c1', 'c1'), runOf(...said), calm(1, [], 1))?.sentence;
  expect(of('WATCH a', 'GET a', 'MULTI; SET a A; EXEC')).toMatch(/share one connection.*WATCH/);
  expect(of('SET a A NX')).toMatch(/what the process knows of its own lock/);
});

it('says of a task that was only refused the key that it has it all the same, and not that tasks are let in', () => {
  const of = (...events: readonly (readonly [kind: string, answer?: string])[]): string | undefined => {
    const trace = events.map(([kind, answer], seq) => {
      const detail = { operation: 'acquire', answer };
      return { seq, atUs: seq, kind, process: 'c1', detail, cause: -1 };
    });
    const run = { run: { trace } } as unknown as LibraryRun;
    return causeOf('belief', failure('mutual-exclusion', 'c1', 'c1'), run, calm(1, [], 1))?.id;
  };
  expect(of(['reply', 'yes'], ['claim'], ['reply', 'no'], ['claim'])).toBe('fails-open');
  expect(of(['reply', 'no'], ['reply', 'yes'], ['claim'], ['claim'])).toBe('lets-tasks-in');
  expect(of(['reply', 'yes'], ['claim'], ['reply', 'no'], ['reply', 'yes'], ['claim'])).toBe('lets-tasks-in');
});

it('says of what overwrites a key whether its client was woken', () => {
  const of = (before: string, said: string): string | undefined => {
    const gone = { kind: 'key-gone', detail: { owner: 'c1', how: 'overwritten', resource: 'a' } };
    const sent = [before, said].map((it) => ({ kind: 'execute', detail: { client: 'c2', said: it } }));
    const trace = [...sent, gone].map((it, seq) => ({ seq, atUs: seq, process: 'n0', cause: -1, ...it }));
    const run = { run: { trace } } as unknown as LibraryRun;
    return causeOf('belief', failure('mutual-exclusion', 'c1', 'c2'), run, calm(1, [], 1))?.sentence;
  };
  expect(of('BLPOP free:a 1', 'SET a B PX 9000')).toContain('a client that is woken (BLPOP) sets the key');
  expect(of('GET a', 'SET a B PX 9000')).not.toContain('woken');
  expect(of('BLPOP free:a 1', 'SET a B PX 9000 NX')).not.toContain('woken');
});
