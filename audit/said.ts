import { type Meaning, ONLY_OLD } from '../libraries/redis/meaning.js';

/** A command that a process sent. */
export interface Said {
  /** In lower case; `script` for one that Lua carries out. */
  readonly verb: string;
  readonly key: string;
  readonly operation: Meaning['operation'];
  /** What marks its key as its own, if there is that in it. */
  readonly value: string | null;
  /** What its key lives for, ms; `null` where it does not say. */
  readonly ttlMs: number | null;
  /** The key itself has no end: its value says when it is over, and a client that comes then takes it. */
  readonly endsByValue: boolean;
  /** It acts only where there is no such key. */
  readonly ifNew: boolean;
  /** It looks at what the key has before it acts. */
  readonly compares: boolean;
  /** A script that stores another value than the one that has to be there. */
  readonly replaces?: boolean;
  /** It went out in one MULTI with others. */
  readonly inMulti?: boolean;
  readonly node: number;
  /** By the wall clock of its process, ms. */
  readonly atMs: number;
  readonly words: readonly string[];
}

/** Whether it is a `SET` of a key that may or may not be there. */
export function isUnconditional([verb = '', ...words]: readonly string[]): boolean {
  return /^set$/i.test(verb) && !words.slice(2).some((it) => ['nx', ...ONLY_OLD].includes(it.toLowerCase()));
}

function optionAfter(words: readonly string[], name: string): number | null {
  const at = words.findIndex((it) => it.toLowerCase() === name);
  return at < 0 ? null : Number(words[at + 1]);
}

function ttlOf(verb: string, words: readonly string[], nowMs: number, meaning: Meaning): number | null {
  const number = Number(words[2]);
  switch (verb) {
    case 'set': {
      const px = optionAfter(words, 'px');
      const ex = optionAfter(words, 'ex');
      const pxat = optionAfter(words, 'pxat');
      const exat = optionAfter(words, 'exat');
      if (px !== null) return px;
      if (ex !== null) return ex * 1000;
      if (pxat !== null) return pxat - nowMs;
      return exat === null ? null : exat * 1000 - nowMs;
    }
    case 'setex':
    case 'expire':
      return number * 1000;
    case 'psetex':
    case 'pexpire':
      return number;
    case 'eval':
    case 'evalsha':
    case 'fcall':
      return meaning.ttlMs > 0 ? meaning.ttlMs : null;
    default:
      return null;
  }
}

/** A time by the wall clock, ms. */
const TIME_MS = /(?<!\d)\d{13}(?!\d)/g;
/** No lock is meant to last for longer, ms. */
const LONGEST_MS = 24 * 3600 * 1000;

/** How long it is until a time that is in a value, ms; `null` where none is, or only the time at which it was sent. */
function untilTimeIn(value: string | null, nowMs: number): number | null {
  const times = [...(value ?? '').matchAll(TIME_MS)].map(([it]) => Number(it) - nowMs);
  return times.find((it) => it > 1 && it <= LONGEST_MS) ?? null;
}

/** What takes one of those who have a key out of it. */
const TAKES_OUT: readonly string[] = ['zrem', 'srem', 'hdel', 'lrem'];

/** What adds one to those who have a key, with where its own mark is among the words; 0 where it is only counted. */
const ADDS: Readonly<Record<string, number>> = { zadd: -1, sadd: 2, hset: 2, hsetnx: 2, lpush: 2, rpush: 2, incr: 0 };

/** Whether a command adds one to those who have a key, or counts it. */
export function isAdded({ verb }: Said): boolean {
  return verb in ADDS;
}

/** Whether a command sets its key whether or not that is there. */
export function setsAnyway({ verb, ifNew }: Said): boolean {
  return !ifNew && /^(?:set|p?setex)$/.test(verb);
}

/** A command that adds one to those who have a key, or takes one out of it, as those of a lock that keeps its holders so. */
export function asCounted(said: Said): Said {
  const { verb, words } = said;
  if (verb === 'decr' || (verb === 'script' && said.operation === 'read-counter'))
    return { ...said, operation: 'release', compares: true };
  const at = ADDS[verb];
  if (at === undefined) return said;
  const untilMs = said.ttlMs ?? untilTimeIn(words.slice(2).join(' '), said.atMs);
  return { ...said, operation: 'acquire', value: at === 0 ? '' : (words.at(at) ?? ''), ttlMs: untilMs };
}

const SCRIPTS: readonly string[] = ['eval', 'evalsha', 'fcall'];

/** Reads a command. */
export function readCommand(words: readonly string[], meaning: Meaning, node: number, atMs: number): Said {
  const verb = (words[0] ?? '').toLowerCase();
  const isScript = SCRIPTS.includes(verb);
  const ifNew = verb === 'setnx' || (verb === 'set' && words.some((it) => it.toLowerCase() === 'nx'));
  const value = isScript
    ? (meaning.value ?? (meaning.operation === 'acquire' ? '' : null))
    : verb === 'set' || verb === 'setnx'
      ? (words[2] ?? null)
      : null;
  const ttlMs = ttlOf(verb, words, atMs, meaning);
  const isOffer = ifNew || (isScript && meaning.operation === 'acquire');
  const untilMs = isOffer ? untilTimeIn(isScript ? words.slice(2).join(' ') : value, atMs) : null;
  // A key may be there for longer than a lock in it.
  const byValue = ttlMs === null || (isScript && untilMs !== null && untilMs < ttlMs) ? untilMs : null;
  const isConditional =
    words.some((it) => /^if(?:eq|deq)$/i.test(it)) ||
    verb === 'delex' ||
    verb === 'delifeq' ||
    TAKES_OUT.includes(verb);
  return {
    verb: isScript ? 'script' : verb,
    key: (isScript ? meaning.keys[0] : words[1]) ?? '',
    operation: operationOf(verb, meaning, words),
    value,
    ttlMs: byValue ?? ttlMs,
    endsByValue: byValue !== null,
    ifNew: ifNew || (isScript && meaning.operation === 'acquire' && (meaning.script?.setsNew ?? false)),
    compares: isConditional || (isScript && (meaning.script?.reads ?? true)),
    ...(meaning.replaces === true ? { replaces: true } : {}),
    node,
    atMs,
    words,
  };
}

function operationOf(verb: string, meaning: Meaning, words: readonly string[]): Meaning['operation'] {
  if (SCRIPTS.includes(verb)) return meaning.operation;
  if (verb === 'setex' || verb === 'psetex' || verb === 'getset') return 'acquire';
  if (verb === 'set') {
    const options = words.slice(3).map((it) => it.toLowerCase());
    // What keeps its TTL extends nothing: it stores what has come of the work.
    if (options.includes('keepttl')) return 'read-counter';
    return options.some((it) => ONLY_OLD.includes(it)) ? 'extend' : 'acquire';
  }
  if (['setnx'].includes(verb)) return 'acquire';
  if (TAKES_OUT.includes(verb)) return 'release';
  if (['del', 'unlink', 'getdel', 'delex', 'delifeq'].includes(verb)) return 'release';
  return ['expire', 'pexpire', 'expireat', 'pexpireat', 'persist'].includes(verb) ? 'extend' : 'read-counter';
}
