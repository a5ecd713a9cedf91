import type { Operation } from '../../core/index.js';

/** What a command is about, for the addresses of messages, for monitors and for reports. */
export interface Meaning {
  readonly operation: Operation;
  readonly keys: readonly string[];
  /** The value that marks its keys as somebody's own, if there is one in it. */
  readonly value: string | null;
  readonly ttlMs: number;
  /** What a script does, if it is one: reads keys before it acts on them, sets them, only where there are none, lets them expire. */
  readonly script?: {
    readonly reads: boolean;
    readonly sets: boolean;
    readonly setsNew: boolean;
    readonly expires: boolean;
  };
}

/** The same, sent while its sender acquires: a script that sets keys is how it does that, whatever words it uses. */
export function whileAcquiring(meaning: Meaning): Meaning {
  return meaning.operation === 'extend' && meaning.script?.sets ? { ...meaning, operation: 'acquire' } : meaning;
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
      return { operation: named('xx') >= 0 ? 'extend' : 'acquire', keys: [key], value, ttlMs };
    }
    case 'setnx':
      return { operation: 'acquire', keys: rest.slice(0, 1), value: rest[1] ?? null, ttlMs: 0 };
    case 'eval':
      return ofScript(rest[0] ?? '', rest.slice(1));
    case 'evalsha':
      return ofScript(scriptOf(rest[0] ?? '') ?? '', rest.slice(1));
    case 'del':
    case 'unlink':
    case 'getdel':
      return { operation: 'release', keys: rest, value: null, ttlMs: 0 };
    case 'expire':
    case 'pexpire':
      return { operation: 'extend', keys: rest.slice(0, 1), value: null, ttlMs: Number(rest[1]) };
    default:
      // Nothing changes by it; it goes with what comes from the same client, and has an address like that.
      return { operation: 'read-counter', keys: rest.slice(0, 1), value: null, ttlMs: 0 };
  }
}

const CALLS = (name: string): RegExp => new RegExp(`["']${name}["']`, 'i');
const [DELETES, SETS, LOOKS, ONLY_NEW, READS, EXPIRES] = [
  CALLS('(?:del|unlink)'),
  CALLS('(?:set|setnx)'),
  CALLS('exists'),
  CALLS('nx'),
  CALLS('h?get'),
  CALLS('p?expire'),
];

function ofScript(text: string, [count, ...rest]: readonly string[]): Meaning {
  const keys = rest.slice(0, Number(count));
  const argv = rest.slice(Number(count));
  const value = argv.find((it) => Number.isNaN(Number(it))) ?? argv[0] ?? null;
  const ttlMs = Number(argv.findLast((it) => it !== value && !Number.isNaN(Number(it))) ?? 0);
  const setsNew = LOOKS.test(text) || ONLY_NEW.test(text);
  const script = { reads: READS.test(text), sets: SETS.test(text), setsNew, expires: EXPIRES.test(text) };
  const about = { keys, value, ttlMs, script };
  if (DELETES.test(text)) return { operation: 'release', ...about, ttlMs: 0 };
  if (script.sets) return { operation: setsNew ? 'acquire' : 'extend', ...about };
  return { operation: script.expires ? 'extend' : 'read-counter', ...about };
}
