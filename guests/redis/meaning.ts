import type { Operation } from '../../core/index.js';

/** What a command is about, for the addresses of messages, for monitors and for reports. */
export interface Meaning {
  readonly operation: Operation;
  readonly keys: readonly string[];
  /** The value that marks its keys as somebody's own, if there is one in it. */
  readonly value: string | null;
  readonly ttlMs: number;
  /**
   * What kind of script it is, if it is one: a `usual` one looks whose the keys are, or whether they are there, before it acts;
   * one that `restores` extends keys, and may set them as well.
   */
  readonly script: 'usual' | 'restores' | 'other' | null;
}

/**
 * Tells what a command is about. `SET … NX`, and a script that looks whether a key exists before it sets one, acquire; what
 * deletes, releases; other scripts and commands that write extend. The value of a script is its first argument that is not
 * a number.
 *
 * @param scriptOf - The text of a script by its SHA-1.
 */
export function meaningOf(args: readonly string[], scriptOf: (sha: string) => string | undefined): Meaning {
  const [name = '', ...rest] = args;
  switch (name.toLowerCase()) {
    case 'set': {
      const [key = '', value = '', ...options] = rest;
      const named = (option: string): number => options.findIndex((it) => it.toLowerCase() === option);
      const [px, ex] = [named('px'), named('ex')];
      const ttlMs = px >= 0 ? Number(options[px + 1]) : ex >= 0 ? 1000 * Number(options[ex + 1]) : 0;
      return { operation: named('xx') >= 0 ? 'extend' : 'acquire', keys: [key], value, ttlMs, script: null };
    }
    case 'setnx':
      return { operation: 'acquire', keys: rest.slice(0, 1), value: rest[1] ?? null, ttlMs: 0, script: null };
    case 'eval':
      return ofScript(rest[0] ?? '', rest.slice(1));
    case 'evalsha':
      return ofScript(scriptOf(rest[0] ?? '') ?? '', rest.slice(1));
    case 'del':
    case 'unlink':
    case 'getdel':
      return { operation: 'release', keys: rest, value: null, ttlMs: 0, script: null };
    case 'expire':
    case 'pexpire':
      return { operation: 'extend', keys: rest.slice(0, 1), value: null, ttlMs: Number(rest[1]), script: null };
    default:
      // Nothing changes by it; it goes with what comes from the same client, and has an address like that.
      return { operation: 'read-counter', keys: rest.slice(0, 1), value: null, ttlMs: 0, script: null };
  }
}

const CALLS = (name: string): RegExp => new RegExp(`["']${name}["']`, 'i');
const [DELETES, SETS, LOOKS, ONLY_NEW, READS] = [
  CALLS('(?:del|unlink)'),
  CALLS('(?:set|setnx)'),
  CALLS('exists'),
  CALLS('nx'),
  CALLS('h?get'),
];
const WRITES = CALLS('p?expire');

function ofScript(text: string, [count, ...rest]: readonly string[]): Meaning {
  const keys = rest.slice(0, Number(count));
  const argv = rest.slice(Number(count));
  const value = argv.find((it) => Number.isNaN(Number(it))) ?? argv[0] ?? null;
  const ttlMs = Number(argv.findLast((it) => it !== value && !Number.isNaN(Number(it))) ?? 0);
  const about = { keys, value, ttlMs, script: READS.test(text) ? ('usual' as const) : ('other' as const) };
  if (DELETES.test(text)) return { operation: 'release', ...about, ttlMs: 0 };
  if (!SETS.test(text)) return { operation: WRITES.test(text) ? 'extend' : 'read-counter', ...about };
  const isNew = LOOKS.test(text) || ONLY_NEW.test(text);
  return { operation: isNew ? 'acquire' : 'extend', ...about, script: isNew ? 'usual' : 'restores' };
}
