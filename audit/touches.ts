import { type Bench, textIn } from './load.js';
import type { Said } from './said.js';
import type { Trial } from './trial.js';

/** A value that is read or stored: that of a key, of a field of a hash, or of all its fields (`*`). */
export interface Touch {
  readonly key: string;
  readonly field: string;
  /** What is stored there; `null` where it is read. */
  readonly stored: string | null;
  readonly atMs: number;
}

const ALL = '*';

/** Whether both are about one value. */
export function isSameValue(one: Touch, two: Touch): boolean {
  return one.key === two.key && (one.field === two.field || one.field === ALL || two.field === ALL);
}

type Value = Omit<Touch, 'atMs'>;

/**
 * What an acquisition reads and stores by value while it is held, of other keys than those of locks.
 *
 * @param sinceMs - From then on. Default: since it was granted.
 * @param isLater - Also what it does when it has released the lock. Default: no.
 */
export function touchesIn(
  bench: Bench,
  { sent, key, grantedMs }: Trial,
  locks: ReadonlySet<string>,
  sinceMs: number = grantedMs,
  isLater: boolean = false,
): Touch[] {
  const isOver = (it: Said): boolean => it.operation === 'release' && it.key === key && it.atMs >= grantedMs;
  const end = sent.findIndex(isOver);
  const held = (end < 0 || isLater ? sent : sent.slice(0, end)).filter(({ atMs }) => atMs >= sinceMs);
  return held.flatMap((said) =>
    valuesOf(bench, said, locks)
      .filter((it) => !locks.has(it.key))
      .map((it) => ({ ...it, atMs: said.atMs })),
  );
}

/** What an acquisition stores last in its own key when it has that; `null` where it stores nothing there. */
export function markIn(bench: Bench, { sent, key, grantedMs, value }: Trial): string | null {
  if (key === null) return null;
  const later = sent.filter(({ atMs, operation }) => atMs >= grantedMs && operation !== 'release');
  const stored = later.flatMap((said) => valuesOf(bench, said, new Set([key])));
  return stored.findLast((it) => it.key === key && it.stored !== null && it.stored !== value)?.stored ?? null;
}

function valuesOf(bench: Bench, said: Said, locks: ReadonlySet<string>): Value[] {
  return said.verb === 'script' ? valuesInScript(textIn(bench, said), said.words, locks) : valuesIn(said.words);
}

const read = (key: string, field = ''): Value => ({ key, field, stored: null });

/** Options of SET by which it stores the value in any case, or wherever there is one. */
const STORES_ALWAYS = /^(?:ex|px|exat|pxat|keepttl|xx|\d+)$/i;

function valuesIn([verb = '', key = '', ...rest]: readonly string[]): Value[] {
  const pairs = (from: readonly string[]): (readonly [string, string])[] =>
    from.flatMap((name, i) => (i % 2 === 0 ? [[name, from[i + 1] ?? ''] as const] : []));
  switch (verb.toLowerCase()) {
    case 'get':
      return [read(key)];
    case 'mget':
      return [key, ...rest].map((it) => read(it));
    case 'hget':
    case 'hmget':
      return rest.map((field) => read(key, field));
    case 'hgetall':
      return [read(key, ALL)];
    case 'set': {
      const [stored = '', ...options] = rest;
      return options.every((it) => STORES_ALWAYS.test(it)) ? [{ key, field: '', stored }] : [];
    }
    case 'setex':
    case 'psetex':
      return [{ key, field: '', stored: rest[1] ?? '' }];
    case 'hset':
    case 'hmset':
      return pairs(rest).map(([field, stored]) => ({ key, field, stored }));
    case 'mset':
      return pairs([key, ...rest]).map(([name, stored]) => ({ key: name, field: '', stored }));
    default:
      return [];
  }
}

const CALLS = /redis\.p?call\(\s*['"](\w+)['"]\s*,\s*([^,)]+)(?:,\s*([^,)]+))?(?:,\s*([^,)]+))?([^)]*)\)/gi;
/** Commands that change data. */
export const CHANGES_DATA: RegExp =
  /^(?:m?set|getset|hm?set|p?setex|h?del|unlink|p?expire(?:at)?|publish|(?:in|de)cr(?:by)?|h?incrby(?:float)?|[zsx]add|[lr]push|[zs]rem|zincrby)$/i;

/** What a script stores, where all that it reads are locks: what reads more may decide by that whether it stores anything. */
function valuesInScript(text: string, words: readonly string[], locks: ReadonlySet<string>): Value[] {
  const count = Number(words[2]);
  const given: Readonly<Record<string, readonly string[]>> = {
    KEYS: words.slice(3, 3 + count),
    ARGV: words.slice(3 + count),
  };
  const aliases = new Map([...text.matchAll(/local\s+(\w+)\s*=\s*((?:KEYS|ARGV)\[\d+\])/g)].map(([, a, b]) => [a, b]));
  const resolved = (term = ''): string | undefined => {
    const [, list = '', at] = /^(KEYS|ARGV)\[(\d+)\]$/.exec(aliases.get(term.trim()) ?? term.trim()) ?? [];
    return given[list]?.[Number(at) - 1] ?? /^['"](.*)['"]$/.exec(term.trim())?.[1];
  };
  const stored: Value[] = [];
  for (const [, verb = '', ...terms] of text.matchAll(CALLS)) {
    const [key, one, two] = terms.slice(0, 3).map(resolved);
    if (!CHANGES_DATA.test(verb) && (key === undefined || !locks.has(key))) return [];
    if (key === undefined) continue;
    if (/^set$/i.test(verb) && one !== undefined && !/['"][nx]x['"]/i.test(terms.join()))
      stored.push({ key, field: '', stored: one });
    if (/^p?setex$/i.test(verb) && two !== undefined) stored.push({ key, field: '', stored: two });
    if (/^hm?set$/i.test(verb) && one !== undefined && two !== undefined) stored.push({ key, field: one, stored: two });
  }
  return stored;
}
