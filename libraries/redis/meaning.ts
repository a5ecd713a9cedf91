import type { Operation } from '../../core/index.js';
import type { Effect } from './effect.js';

/** What a command is about, for the addresses of messages, for monitors and for reports. */
export interface Meaning {
  readonly operation: Operation;
  readonly keys: readonly string[];
  /** The value that marks its keys as somebody's own, if there is one in it. */
  readonly value: string | null;
  readonly ttlMs: number;
  /** It answers 0, or nothing, where it does what it is for. */
  readonly isInverted?: boolean;
  /** It stores another value than the one that has to be there. */
  readonly replaces?: boolean;
  /** What a script does, if it is one: reads keys before it acts on them, sets them, only where there are none, lets them expire. */
  readonly script?: {
    readonly reads: boolean;
    readonly sets: boolean;
    readonly setsNew: boolean;
    readonly expires: boolean;
  };
}

/** What scripts are and do, as far as is known. */
export interface Scripts {
  /** The text of a script by its SHA-1. */
  textOf(sha: string): string | undefined;
  /** What it does, with what follows its text in `EVAL`. */
  effectOf(text: string, rest: readonly string[]): Effect | null;
  /** What a function does, with what follows its name in `FCALL`. */
  effectOfFunction(name: string, rest: readonly string[]): Effect | null;
  /** What any other command does to the keys of the process that sends it. */
  effectOfCommand(name: string, rest: readonly string[]): Effect | null;
}

/**
 * Tells what a command is about. `SET … NX` acquires; what deletes, releases; what gives a key a new TTL extends. Of a
 * script it is what it does to a node. Where nothing is found that it does, its words tell, and its value is its first
 * argument that is not a number.
 */
export function meaningOf(args: readonly string[], scripts: Scripts): Meaning {
  const [name = '', first = '', second] = args;
  switch (name.toLowerCase()) {
    case 'set':
      return ofSet(first, second ?? '', args);
    case 'setnx':
      return { operation: 'acquire', keys: args.slice(1, 2), value: second ?? null, ttlMs: 0 };
    case 'eval':
      return ofScript(first, args.slice(2), scripts);
    case 'evalsha':
      return ofScript(scripts.textOf(first) ?? '', args.slice(2), scripts);
    case 'fcall':
      return ofFunction(first, args.slice(2), scripts);
    case 'del':
    case 'unlink':
    case 'getdel':
      return { operation: 'release', keys: args.slice(1), value: null, ttlMs: 0 };
    case 'expire':
    case 'pexpire':
      return { operation: 'extend', keys: args.slice(1, 2), value: null, ttlMs: Number(second) };
    default: {
      // Where nothing changes by it, it goes with what comes from the same client, and has an address like that.
      const effect = scripts.effectOfCommand(name, args.slice(1));
      return effect ?? { operation: 'read-counter', keys: args.slice(1, 2), value: null, ttlMs: 0 };
    }
  }
}

/** Options by which `SET` sets only a key that is there. */
export const ONLY_OLD: readonly string[] = ['xx', 'ifeq', 'ifdeq'];

/** Of options that are there twice, the first counts. */
function ofSet(key: string, value: string, args: readonly string[]): Meaning {
  let [px, ex, isOld, isNew, gets] = [0, 0, false, false, false];
  for (let place = args.length - 1; place > 2; place--) {
    const word = args[place]?.toLowerCase();
    if (word === 'px') px = place;
    else if (word === 'ex') ex = place;
    else if (word !== undefined && ONLY_OLD.includes(word)) isOld = true;
    else if (word === 'nx') isNew = true;
    else if (word === 'get') gets = true;
  }
  const ttlMs = px > 0 ? Number(args[px + 1]) : ex > 0 ? 1000 * Number(args[ex + 1]) : 0;
  // `SET … NX GET` answers with the value that was there: with none where it has set the key.
  const isInverted = isNew && gets ? { isInverted: true } : {};
  return { operation: isOld ? 'extend' : 'acquire', keys: [key], value, ttlMs, ...isInverted };
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

/** What was told last of a script: the same command goes to node after node. */
let told: { readonly effect: Effect; readonly text: string; readonly meaning: Meaning } | null = null;

function ofScript(text: string, given: readonly string[], scripts: Scripts): Meaning {
  const effect = scripts.effectOf(text, given);
  if (effect === null) return byWords(text, given);
  if (told?.effect !== effect || told.text !== text)
    told = { effect, text, meaning: { ...effect, script: wordsIn(text) } };
  return told.meaning;
}

/** The text of a function is not looked at: all that is known is what it does. */
function ofFunction(name: string, given: readonly string[], scripts: Scripts): Meaning {
  const effect = scripts.effectOfFunction(name, given);
  if (effect === null) return byWords('', given);
  const sets = effect.operation === 'acquire';
  const script = { reads: !sets, sets, setsNew: sets, expires: effect.operation === 'extend' };
  return { ...effect, script };
}

/** What the words of a script say that it does. */
interface Words extends NonNullable<Meaning['script']> {
  readonly deletes: boolean;
}

/** Clients send few scripts, and each many times. */
const MOST_KNOWN = 256;
const known = new Map<string, Words>();
let latest: readonly [string, Words] | null = null;

function wordsIn(text: string): Words {
  if (latest?.[0] === text) return latest[1];
  const words = known.get(text) ?? wordsRead(text);
  latest = [text, words];
  return words;
}

function wordsRead(text: string): Words {
  const words = {
    reads: READS.test(text),
    sets: SETS.test(text),
    setsNew: LOOKS.test(text) || ONLY_NEW.test(text),
    expires: EXPIRES.test(text),
    deletes: DELETES.test(text),
  };
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(text, words);
  return words;
}

/** The keys that a script sets by their places: `redis.call('SET', KEYS[2], …)`; all where it names none so. */
function keysSet(text: string, keys: readonly string[]): readonly string[] {
  const calls = text.matchAll(/["'](?:set|setnx)["']\s*,\s*KEYS\[(\d+)\]/gi);
  const named = new Set([...calls].flatMap(([, place]) => keys[Number(place) - 1] ?? []));
  return named.size > 0 ? [...named] : keys;
}

function byWords(text: string, [count, ...rest]: readonly string[]): Meaning {
  const keys = rest.slice(0, Number(count));
  const argv = rest.slice(Number(count));
  const value = argv.find((it) => Number.isNaN(Number(it))) ?? argv[0] ?? null;
  const ttlMs = Number(argv.findLast((it) => it !== value && !Number.isNaN(Number(it))) ?? 0);
  const script = wordsIn(text);
  const about = { keys, value, ttlMs, script };
  if (script.deletes) return { operation: 'release', ...about, ttlMs: 0 };
  if (script.sets) return { operation: script.setsNew ? 'acquire' : 'extend', ...about, keys: keysSet(text, keys) };
  return { operation: script.expires ? 'extend' : 'read-counter', ...about };
}
