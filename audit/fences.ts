import type { Commands, Defect } from './defect.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import { takerIn, type Understood } from './plan.js';
import { calm, REST_MS, rehearse, use, withClock } from './rehearsal.js';
import { roleOf } from './roles.js';
import type { Said } from './said.js';
import type { Trial } from './trial.js';

/** A fencing token, and what the clock of its process showed. */
export interface Fence {
  readonly value: number;
  readonly wallMs: number;
}

/** So far is the clock of the second process behind, ms. */
const BEHIND_MS = 5_000;
const BETWEEN_MS = 200;

/**
 * The fencing tokens of three acquisitions after each other: two of one process, and one of another, whose clock is behind.
 * Empty where they have none.
 */
export async function fencesOf(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<readonly Fence[]> {
  if (!how.releases || !speaksOfFencing(bench)) return [];
  const clients = [[use(10, ttlMs, 1), use(10 + BETWEEN_MS, ttlMs, 1)], [use(10 + 2 * BETWEEN_MS, ttlMs, 1)]];
  const schedule = calm(how.nodes, clients, (2 * ttlMs + REST_MS) * 1000);
  const attempts = await rehearse(bench, hosts, how, withClock(schedule, 'c2', -BEHIND_MS));
  const isOfWork = saysOtherwise(bench, how);
  const found = attempts.flatMap(({ held, acquiredMs }) => {
    const isOther = isOfWork && isNumber(held?.result);
    const value = held === null || isOther ? null : (fenceIn(held.result) ?? fenceIn(held.owner));
    return value === null ? [] : [{ value, wallMs: acquiredMs }];
  });
  return found.length === 3 ? found : [];
}

/** Whether work is handed a number of which its type says that it is something else, as what there is to work on. */
function saysOtherwise({ program }: Bench, { plan }: Understood): boolean {
  const { parameters } = program.shapes.find(({ name }) => plan.use === 'with' && name === takerIn(plan)) ?? {};
  const type = parameters?.find((it) => roleOf(it) === 'work')?.type ?? '';
  return /^\(\w/.test(type) && !/fenc|token|epoch|generation|term/i.test(type);
}

/** Whether a file has anything to do with fencing tokens. */
export function speaksOfFencing({ program }: Bench): boolean {
  return program.sources.some(({ text }) => /fenc/i.test(text));
}

/** Draws a number that rises. */
const DRAWS = /\bincr(?:by)?\b/i;

/** The version of a record that was read, handed to a call after what is stored: `save(doc, doc.version)`. */
const HANDS_VERSION = /,\s*[\w.]+\.(?:version|revision|rev|etag|_rev)\s*[,)]/g;
const CHANGES = String.raw`\b(?:insert\s+into|update\s+\S+(?:\s+as)?(?:\s+\w+)?\s+set|delete\s+from)\b`;
/** The last statement that changes something in a text, and one that does so for a version alone. */
const STATEMENT = new RegExp(`${CHANGES}(?![\\s\\S]*${CHANGES})[\\s\\S]*$`, 'i');
const OF_VERSION = /\bwhere\b[\s\S]*(?:version|revision|rev|etag)\b/i;
/** Between a statement and what it is handed there is no more. */
const NEAR = 300;

function handsVersion(text: string): boolean {
  return [...text.matchAll(HANDS_VERSION)].some(({ index }) => {
    const [statement] = STATEMENT.exec(text.slice(Math.max(0, index - NEAR), index)) ?? [];
    return statement === undefined || OF_VERSION.test(statement);
  });
}

/** A statement that stores a number where a lower one is: `SET sequence = $2 … WHERE id = $1 AND sequence < $2`. */
const RAISES = /\b(\w+)\s*=\s*(\$\d+)[^;`]{0,300}\bwhere\b[^;`]{0,200}\b\1\s*<=?\s*\2(?!\d)/i;
/** What says how many records a statement has changed. */
const LOOKS_AT_CHANGED = /rowCount|affectedRows|changedRows|\breturning\b/i;

/** Whether a file draws numbers from Redis, and looks whether its store has refused one: a fencing token by another name. */
function raises(text: string): boolean {
  return DRAWS.test(text) && RAISES.test(text) && LOOKS_AT_CHANGED.test(text);
}

/** Whether what a file stores its work in refuses who is late, by a fencing token or by the version that was read. */
export function refusesLate(bench: Bench): boolean {
  return speaksOfFencing(bench) || bench.program.sources.some(({ text }) => handsVersion(text) || raises(text));
}

function isNumber(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

/** A lock that speaks of fencing may call its token so, or otherwise; what is nothing but a number is one. */
function fenceIn(value: unknown): number | null {
  if (isNumber(value)) return Number(value);
  if (typeof value !== 'object' || value === null) return null;
  const names = Object.keys(value);
  for (const name of [
    ...names.filter((it) => /fenc/i.test(it)),
    ...names.filter((it) => /^(?:token|epoch|generation|term)$/.test(it)),
  ]) {
    const field: unknown = Reflect.get(value, name);
    if (isNumber(field) || /^\d+$/.test(String(field))) return Number(field);
  }
  return null;
}

const DAY_MS = 86_400_000;

const DRAWN_FIRST: Defect = {
  id: 'fencing-token',
  sentence:
    'its fencing token is drawn before it has the lock: of two that ask at once, the one that gets the lock later may have the lower number, and what it guards refuses it, or takes a late write of the one before',
  fix: 'draw the token when the lock is held, or in the script that sets it',
  brings: [],
  property: 'fencing',
  isShown: true,
};

/** `local seen = redis.call('HGET', …)`, and the name. */
const READ_IN_LUA = /\blocal\s+(\w+)\s*=\s*redis\.p?call\(\s*['"]h?get['"][^\n]*\)[^\S\n]*(?:$|\n|;)/gim;

/** Whether a file draws numbers that rise from holder to holder, by whatever name. */
function drawsNumbers(bench: Bench): boolean {
  return speaksOfFencing(bench) || bench.program.texts.some((it) => DRAWS.test(it));
}

/** Whether a script of a file compares two texts, where it means numbers. */
function comparesTexts(texts: readonly string[]): boolean {
  return texts.some((text) =>
    [...text.matchAll(READ_IN_LUA)].some(([, name]) =>
      new RegExp(`ARGV\\[\\d\\]\\s*[<>]=?\\s*${name}\\b|(?<![\\w(])${name}\\s*[<>]=?\\s*ARGV\\[\\d\\]`).test(text),
    ),
  );
}

/** A column for fencing tokens. */
const COLUMN = String.raw`\w*(?:fenc|epoch|generation)\w*`;
/** A statement of SQL that changes records, and a call of a query builder that does. */
const UPDATES = /\bupdate\b[^;`]*?\bset\b([^;`]*)/gi;
const UPDATES_BY_CALL = /\.(?:update(?:Many|One)?|set)\(\s*\{/;
/** What keeps others from a record that was read, or compares in the database itself. */
const LOCKS_RECORD = /\bfor\s+(?:no\s+key\s+)?update\b|\bforUpdate\b|pessimistic_write|\btrigger\b|serializable/i;
const COMPARES = /[<>]|\bversion\b|\brev(?:ision)?\b/i;

/** Whether a file stores a fencing token in a record whatever token that has: by a statement without a condition on it. */
export function storesAnyFence(text: string): boolean {
  if (LOCKS_RECORD.test(text)) return false;
  const bySql = [...text.matchAll(UPDATES)].some(([, rest = '']) => {
    const [set = '', ...where] = rest.split(/\bwhere\b/i);
    const [, column] = new RegExp(`\\b(${COLUMN})\\s*=\\s*(?:\\$\\d|\\?|:\\w|\\$\\{)`, 'i').exec(set) ?? [];
    const condition = where.join(' ');
    return column !== undefined && !condition.includes(column) && !COMPARES.test(condition);
  });
  return bySql || text.split(';').some(storesByCall);
}

function storesByCall(statement: string): boolean {
  const at = statement.search(UPDATES_BY_CALL);
  const own = at < 0 ? '' : statement.slice(Math.max(0, statement.lastIndexOf('await', at)));
  const [, column] = new RegExp(`[{,]\\s*(${COLUMN})\\s*[:,}]`, 'i').exec(own) ?? [];
  if (column === undefined) return false;
  // `where('fence', '<=', token)`, `lte(table.fence, token)`.
  const named = own.matchAll(new RegExp(`\\b${column}\\s*[:,}]|['"\`]${column}|\\.${column}\\b`, 'g'));
  return [...named].length === 1 && !/['"]<=?['"]|\blte?\(/.test(own);
}

/** How a file compares fencing tokens: in a script, and where it stores its work. */
export function comparisonsIn(bench: Bench): { readonly comparesTokens: boolean; readonly storesAny: boolean } {
  const { texts } = bench.program;
  const draws = drawsNumbers(bench);
  return { comparesTokens: draws && comparesTexts(texts), storesAny: draws && texts.some(storesAnyFence) };
}

/** Whether a number, in a key of such a name, is drawn before the lock is asked for, and none after that. */
function isDrawnFirst({ sent }: Trial, acquire: Said | undefined, named: RegExp = /^/): boolean {
  const draws = sent.findLast(({ verb, words }) => /^h?incr(?:by)?$/.test(verb) && named.test(words.join(' ')));
  return draws !== undefined && acquire !== undefined && sent.indexOf(draws) < sent.indexOf(acquire);
}

/** What is wrong with fencing tokens that do not rise from holder to holder. */
export function fenceDefects(fences: readonly Fence[], { trial, acquire }: Commands): Defect[] {
  const [one, two, other] = fences;
  // What does its own work hands it on, where nobody sees it.
  if (fences.length === 0 && isDrawnFirst(trial, acquire, /fenc/i)) return [DRAWN_FIRST];
  if (one === undefined || two === undefined || other === undefined) return [];
  if (two.value > one.value && other.value > two.value) return isDrawnFirst(trial, acquire) ? [DRAWN_FIRST] : [];
  const isTime = [1, 1_000].some((unit) => Math.abs(other.value * unit - other.wallMs) < DAY_MS);
  const why = isTime
    ? 'it is the time that the clock of its process shows, and falls back where another process acquires whose clock is behind'
    : one.value === two.value && two.value === other.value
      ? 'it is always the same'
      : two.value <= one.value
        ? 'it is not drawn from anything that rises'
        : 'each process has a counter of its own, so that the number falls back where another one acquires';
  return [
    {
      id: 'fencing-token',
      sentence: `its fencing token does not rise from one holder to the next: ${why}; what it guards refuses the new holder, or takes a late write of the one before`,
      fix: 'draw the token by INCR on a key without a TTL, in the script that sets the lock',
      brings: [],
      property: 'fencing',
      isShown: true,
    },
  ];
}
