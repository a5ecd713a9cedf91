import type { Defect } from './defect.js';
import type { Attempt } from './rehearsal.js';
import type { Said } from './said.js';
import type { Trial } from './trial.js';

const DRAWN_LATE: Defect = {
  id: 'fencing-token',
  sentence:
    'its fencing token is drawn when the work is done, as it writes, and not with the lock: a holder whose lock has run out draws the newest number, and overwrites what a later holder has written',
  fix: 'draw the token in the script that sets the lock, keep it while the work goes on, and hand that to each write',
  brings: [],
  property: 'fencing',
  isShown: true,
};

/** Whether a lock has a function by which its token is drawn when it is asked for: `fence: () => redis.incr(…)`. */
function drawsWhenAsked(lock: unknown): boolean {
  if (typeof lock !== 'object' || lock === null) return false;
  const draws = (it: unknown): boolean => typeof it === 'function' && /\bh?incr(?:by)?\(/i.test(String(it));
  return Object.entries(lock).some(([name, it]) => /fenc|epoch|generation/i.test(name) && draws(it));
}

/** What draws a fencing token after the work under a lock has ended, or when it is asked for, and never before. */
export function drawnLateDefects({ alone }: { readonly alone: Attempt }): Defect[] {
  if (drawsWhenAsked(alone.held?.result)) return [DRAWN_LATE];
  const draws = alone.trial?.sent.filter(({ verb, key }) => /^h?incr(?:by)?$/.test(verb) && /fenc/i.test(key)) ?? [];
  return draws.length > 0 && draws.every(({ atMs }) => atMs >= alone.releasedMs) ? [DRAWN_LATE] : [];
}

const COMPARES_TEXTS: Defect = {
  id: 'fencing-token',
  sentence:
    'its script compares fencing tokens as texts, as Lua does with what HGET and ARGV are: "10" is less than "9", so that a token that is newer is refused, and a late write of an old holder is taken',
  fix: 'compare numbers: tonumber(ARGV[1]) < tonumber(seen)',
  brings: [],
  property: 'fencing',
  isShown: true,
};

const STORES_ANY: Defect = {
  id: 'fencing-token',
  sentence:
    'it stores its work with its fencing token, whichever token the record has by then: the UPDATE has no condition on it, so that a late holder overwrites what a later one has stored between the look and the UPDATE',
  fix: 'compare in the statement that stores: UPDATE … SET fence = $1 … WHERE id = $2 AND fence <= $1, and look at the count of changed rows',
  brings: [],
  property: 'fencing',
  isShown: true,
};

/** What is wrong with how tokens are compared: by a script, or where the work is stored. */
export function comparisonDefects(seen: { readonly comparesTokens: boolean; readonly storesAny: boolean }): Defect[] {
  return [...(seen.comparesTokens ? [COMPARES_TEXTS] : []), ...(seen.storesAny ? [STORES_ANY] : [])];
}

/** The keys whose number a command raises, of those that it is handed: by itself, or in its script. */
function raised(said: Said, text: string): readonly string[] {
  if (/^h?incr(?:by)?$/.test(said.verb)) return [said.key];
  if (said.verb !== 'script') return [];
  return [...text.matchAll(/['"]incr['"]\s*,\s*KEYS\[(\d)\]/gi)].flatMap(([, at]) => said.words[2 + Number(at)] ?? []);
}

/** Of the counters that a script raises, by their number among its keys, those whose number it answers. */
function answered(text: string): readonly string[] {
  const draws = text.matchAll(/(?:local\s+(\w+)\s*=|return)\s*redis\.p?call\(\s*['"]incr['"]\s*,\s*KEYS\[(\d)\]/gi);
  return [...draws].flatMap(([, name, at = '']) =>
    name === undefined || new RegExp(`\\breturn\\b[^\\n]*\\b${name}\\b`).test(text) ? [at] : [],
  );
}

/** Whether a script draws a number, answers it, and has its counter expire, beside the key of a lock. */
function drawsFromEnding(text: string): boolean {
  return answered(text).some(
    (at) =>
      new RegExp(`['"]p?expire['"]\\s*,\\s*KEYS\\[${at}\\]`, 'i').test(text) &&
      new RegExp(`['"]set['"]\\s*,\\s*KEYS\\[(?!${at})\\d\\]`, 'i').test(text),
  );
}

const ENDS: Defect = {
  id: 'fencing-token',
  sentence:
    'the counter that its fencing tokens are drawn from expires (EXPIRE) and starts at 1 again: a new holder has a lower number than one before it, so that what it guards refuses it, or takes a late write of the old one',
  fix: 'give the counter no TTL: INCR alone',
  brings: [],
  property: 'fencing',
  isShown: true,
};
const READ_LATER: Defect = {
  id: 'fencing-token',
  sentence:
    'its fencing token is read by a separate GET after the lock was taken: a holder that is late, whose lock has run out meanwhile, reads the number that its successor has drawn (INCR), and its stale writes are taken',
  fix: 'return what INCR answers from the script that takes the lock, and use that',
  brings: [],
  property: 'fencing',
  isShown: true,
};

/** What is wrong with how a number is drawn that is handed out with the lock. */
export function drawingDefects({ sent, key }: Trial, textOf: (said: Said) => string): Defect[] {
  const at = sent.findIndex(({ operation, key: own }) => operation === 'acquire' && own === key);
  const acquire = sent[at];
  if (acquire === undefined) return [];
  const drawn = raised(acquire, textOf(acquire)).filter((it) => it !== key);
  const isRead = sent.slice(at + 1).some(({ verb, key: other }) => verb === 'get' && drawn.includes(other));
  if (isRead && answered(textOf(acquire)).length === 0) return [READ_LATER];
  return acquire.verb === 'script' && drawsFromEnding(textOf(acquire)) ? [ENDS] : [];
}
