import { isStore, optimisticIn, takesNothing } from './attempts.js';
import { isWork, nameOfCall } from './called.js';
import { OTHER_URL } from './environment.js';
import type { Bench, Stored } from './load.js';
import type { Parameter } from './parameter.js';
import type { SourceFile } from './shapes.js';
import type { Trial } from './trial.js';
import { type calls, LOOKS_FOR } from './unknown.js';
import { isUsed } from './value-names.js';

/** Enough of whatever is counted. */
const ENOUGH = 1_000;
/** Later than the clock of any run. */
const LATER = '2099-01-01T00:00:00.000Z';
/** Earlier than that. */
const EARLIER = '1999-01-01T00:00:00.000Z';

/** How records are made. */
interface Way {
  /** What they have for a time. */
  readonly time: string;
  /** What they have for what is counted. */
  readonly number: number;
  /** What speaks against them where they have it is left out, as `if (bike.rider) return`. */
  readonly isFree: boolean;
}

const LIKELIEST: Way = { time: LATER, number: ENOUGH, isFree: false };
const WAYS: readonly Way[] = [
  LIKELIEST,
  { time: EARLIER, number: ENOUGH, isFree: false },
  { time: LATER, number: 0, isFree: false },
  // Less than what is offered.
  { time: LATER, number: -ENOUGH, isFree: false },
  { time: LATER, number: ENOUGH, isFree: true },
];

/** An object that is read from Redis as JSON: `get<Card>(…)`, `JSON.parse(…) as Card`, `const card: Card = JSON.parse(…)`. */
const TYPED =
  /\.(?:get|hget|hgetall)<\s*(\w+)|JSON\.parse\([^;\n]{0,80}\)\s*as\s+(\w+)|:\s*(\w+)(?:\s*\|\s*(?:null|undefined))?\s*=[^;\n]{0,80}JSON\.parse\(/g;
const PARSED = /\b(?:const|let|var)\s+(\w+)\s*=[^;\n]{0,80}(?:JSON\.parse\(|\.h(?:getall|GetAll)\()/g;

/** Whether what is stored for a function are messages: elements of a list, or entries of a stream. */
export function holdsMessages(stored: Stored): boolean {
  return stored.some(([verb = '']) => verb === 'RPUSH' || verb === 'XADD');
}

/**
 * What may be stored under the keys that an acquisition has read, and which are not there: as a number, and as an object of the type that
 * the files say, or with the properties that they read. The likeliest first; none where it has read no such key.
 */
export function storedFor(trial: Trial | null, sources: readonly SourceFile[]): readonly Stored[] {
  if (trial === null) return [];
  const { sent } = trial;
  const own = new Set(sent.filter((it) => it.operation !== 'read-counter' && !isStore(it)).map(({ key }) => key));
  const reads = sent.filter(({ verb, key }) => READS.test(verb) && !own.has(key) && key !== '');
  const streams = sent.filter(({ verb }) => READS_STREAMS.test(verb)).flatMap(({ words }) => streamsIn(words));
  if (reads.length === 0 && streams.length === 0) return [];
  const keys = ['a', ...[...trial.names].map((it) => `a-${it}`)];
  const objects = WAYS.flatMap((way) => objectIn(sources, keys, way) ?? []);
  const texts = new Set(objects.map((it) => JSON.stringify(it)));
  const values = [...[...texts].map((it) => [it, JSON.parse(it) as object] as const), [String(ENOUGH), {}] as const];
  const all = values.map(([value, object]) => [
    ...reads.flatMap(({ words }) => storing(words, value, object)),
    ...streams.flatMap((it) => storingEntry(it, sources, object)),
  ]);
  // Where a list goes on may be read, too.
  const lists = reads.filter(({ verb }) => /^(?:lrange|smembers|hgetall)$/.test(verb));
  const isBoth = lists.length > 0 && lists.length < reads.length;
  return isBoth
    ? [...all, ...values.map(([value, it]) => lists.flatMap(({ words }) => storing(words, value, it)))]
    : all;
}

/** Its framework parses the bodies of requests. */
const PARSES_BODY = /\b(?:express|bodyParser)\.json\(/;
const READS_STREAMS = /^(?:xread|xreadgroup|xautoclaim)$/;
/** A part of an entry, by the name of what has it. */
const OF_ENTRY =
  /\b(?:msg|message|fields|data|event|entry|payload|record|values|item|body|job|reading|m)\??\.(?!id\b|length\b|messages?\b)(\w+)\b(?!\s*\()/g;

/** A stream that is read, and the group for which it is, empty for none. */
interface ReadStream {
  readonly stream: string;
  readonly group: string;
}

/** The streams that a command reads. */
function streamsIn(words: readonly string[]): readonly ReadStream[] {
  const [verb = '', key = '', name = ''] = words;
  if (verb === 'xautoclaim') return [{ stream: key, group: name }];
  const group = /^group$/i.test(key) ? name : '';
  const rest = words.slice(words.findIndex((it) => /^streams$/i.test(it)) + 1);
  return rest.slice(0, rest.length / 2).map((stream) => ({ stream, group }));
}

/** Adds an entry with what files read of entries, to be read by a group from the start. */
function storingEntry({ stream, group }: ReadStream, sources: readonly SourceFile[], object: object): Stored {
  const texts = sources.map(({ text }) => text);
  const names = new Set(texts.flatMap((it) => [...it.matchAll(OF_ENTRY)].map(([, name = '']) => name)));
  const textFor = (name: string): string => {
    const isParsed = texts.some((it) => new RegExp(String.raw`JSON\.parse\([^;\n]{0,40}\.${name}\b`).test(it));
    return isParsed
      ? JSON.stringify(object)
      : String(sampleOf({ name, type: '', fields: [] }, texts.join('\n'), LIKELIEST));
  };
  const fields = names.size === 0 ? ['a', 'a'] : [...names].flatMap((it) => [it, textFor(it)]);
  return [['XADD', stream, '*', ...fields], ...(group === '' ? [] : [['XGROUP', 'CREATE', stream, group, '0']])];
}

/** How a file takes the body of a request, to parse it. */
const TAKES_BODY = /\.text\(\)|\b(?:rawBody|payload)\b|JSON\.parse\(\s*(?:String\()?[\w.]*\.body\b|\bof req(?:uest)?\)/;

/** The body of a request about something, as JSON with what files read of it; `null` where they parse none. */
export function bodyIn(sources: readonly SourceFile[]): ((about: string) => string) | null {
  const parses = (text: string): boolean =>
    /JSON\.parse\(/.test(text) && TAKES_BODY.test(text) && !PARSES_BODY.test(text);
  const parsing = sources.filter(({ text }) => parses(text));
  const object = parsing.length === 0 ? null : objectIn(parsing, ['a']);
  if (object === null) return null;
  const named = (about: string): object =>
    Object.fromEntries(Object.entries(object).map(([name, it]) => [name, /(?:^i|I)d$|^key$/.test(name) ? about : it]));
  return (about) => JSON.stringify(named(about));
}

const FROM_FILE = /JSON\.parse\([^;\n]{0,40}(?:readFile|content|raw|text|data|file)/;
/** The type of each in a list that is parsed: `const entries: { file: string }[] = JSON.parse(…)`. */
const PARSED_LIST =
  /(?:\{([^{}]*)\}|\w)\[\]\s*=[^;\n]{0,20}JSON\.parse\(|JSON\.parse\([^;\n]{0,80}\)\s*as\s+[\w{}:; ]+\[\]/;
const SEPARATED = /\.split\(\s*['"]([;,|]|\\t)['"]/;
const LINES = 3;

/** How a name ends that is looked for in a folder. */
const ENDING = /\.endsWith\(\s*['"`](\.\w+)['"`]|\\(\.\w+)\$\//g;

/** What files read of the files of their work: JSON, or lines of fields; and how these are named in folders, as migrations are. */
export function filesIn(sources: readonly SourceFile[]): typeof calls.files {
  const endings = sources.flatMap(({ text }) =>
    /\breaddir/.test(text) ? [...text.matchAll(ENDING)].map(([, end, form]) => end ?? form) : [],
  );
  const names = endings.length === 0 ? ['a'] : [...new Set(endings)].map((it) => `0001_a${it}`);
  const parsing = sources.filter(({ text }) => FROM_FILE.test(text));
  const [, by] = sources.map(({ text }) => SEPARATED.exec(text)).find((it) => it !== null) ?? [];
  const line = by === undefined ? '1' : ['1', '1', '1', '1'].join(by.replace('\\t', '\t'));
  const at = (path: string): string => {
    const isJson = /\.json$/.test(path) || (by === undefined && !/\.(?:[ct]sv|txt|log)$/.test(path));
    return isJson && parsing.length > 0 ? jsonFor(parsing) : `${line}\n`.repeat(LINES);
  };
  return { at, names };
}

/** What a file parses without a type, and goes through as a list. */
function isGoneThrough({ text }: SourceFile): boolean {
  const [, name] = /\b(?:const|let|var)\s+(\w+)\s*=\s*JSON\.parse\(/.exec(text) ?? [];
  return (
    name !== undefined &&
    new RegExp(String.raw`\b${name}\.(?:length|slice|map|filter|forEach)\b|\bof\s+${name}\b`).test(text)
  );
}

function jsonFor(sources: readonly SourceFile[]): string {
  const list = sources.map(({ text }) => PARSED_LIST.exec(text)).find((it) => it !== null);
  const isList = list == null && sources.some(isGoneThrough);
  if (isList) return JSON.stringify([objectIn(sources, ['a']) ?? {}]);
  if (list == null) return JSON.stringify(objectIn(sources, ['a']) ?? {});
  const names = [...(list[1] ?? '').matchAll(/(\w+)\??\s*:/g)].map(([, name = '']) => name);
  return JSON.stringify([
    names.length > 0 ? Object.fromEntries(names.map((it) => [it, 'a'])) : objectIn(sources, ['a']),
  ]);
}

const READS = /^(?:m?get|hm?get|hgetall|lrange|smembers|b?lmove|b?[lr]pop|b?rpoplpush)$/;

function storing([verb = '', key = '', ...fields]: readonly string[], value: string, object: object): Stored {
  switch (verb.toLowerCase()) {
    case 'get':
    case 'mget':
      return [key, ...fields].map((it) => ['SET', it, value]);
    case 'lmove':
    case 'blmove':
    case 'lpop':
    case 'rpop':
    case 'rpoplpush':
    case 'brpoplpush':
    case 'blpop':
    case 'brpop':
      return [['RPUSH', key, value]];
    case 'lrange':
      return [['RPUSH', key, value, value]];
    case 'smembers':
      return [['SADD', key, 'a']];
    case 'hgetall': {
      const all = Object.entries(object).flatMap(([name, it]) => [
        name,
        typeof it === 'string' ? it : JSON.stringify(it),
      ]);
      return [['HSET', key, ...(all.length === 0 ? ['a', value] : all)]];
    }
    default:
      return [['HSET', key, ...fields.flatMap((field) => [field, value])]];
  }
}

/** Several reads at once: `const [bike, rider] = await Promise.all([…])`. */
const AT_ONCE = /\bconst\s+\[([\w\s,]+)\]\s*=\s*await\s+Promise\.all\(\s*\[([^;]*?)\]\s*\)/g;

/** The names that records have which a text reads. */
function recordNamesIn(text: string): readonly string[] {
  const atOnce = [...text.matchAll(AT_ONCE)].flatMap(([, names = '', reads = '']) => {
    const calls = reads.split(/\)\s*,/);
    return names.split(',').filter((_, i) => /\.h(?:getall|GetAll)\(/.test(calls[i] ?? ''));
  });
  return [...[...text.matchAll(PARSED)].map(([, name = '']) => name), ...atOnce.map((it) => it.trim())];
}

/**
 * An object with all properties of those that are read as JSON; `null` where none is.
 *
 * @param keys - What each call may ask for in a record.
 */
function objectIn(sources: readonly SourceFile[], keys: readonly string[], way: Way = LIKELIEST): object | null {
  const made: Record<string, unknown> = {};
  for (const { text, types } of sources) {
    for (const [, ...names] of text.matchAll(TYPED)) {
      const fields = types.get(names.find((it) => it !== undefined) ?? '') ?? [];
      for (const it of fields)
        if (!it.isOptional && !it.isFunction) made[it.name] ??= recordOf(it, text, keys) ?? sampleOf(it, text, way);
    }
    for (const name of recordNamesIn(text))
      for (const [, field = ''] of text.matchAll(new RegExp(String.raw`\b${name}\??\.(\w+)`, 'g')))
        if (!way.isFree || !speaksAgainst(text, name, field))
          made[field] ??= sampleOf({ name: field, type: '', fields: [] }, text, way);
  }
  return Object.keys(made).length === 0 ? null : made;
}

/** Whether a function is left where a record has a field: `if (!bike.dock || bike.ride) return`. */
function speaksAgainst(text: string, name: string, field: string): boolean {
  return new RegExp(String.raw`(?:\bif\s*\(|\|\|)\s*${name}\??\.${field}\s*(?:\)|\|\|)`).test(text);
}

/** A record with a value for each of these keys; `undefined` for another type. */
function recordOf({ name, type }: Parameter, text: string, keys: readonly string[]): unknown {
  const [, each] = /^(?:Readonly<)?Record<string,\s*([^<>]+)>+$/.exec(type) ?? [];
  if (each === undefined) return undefined;
  const value = /\bnull\b/.test(each) ? null : sampleOf({ name, type: each, fields: [] }, text, LIKELIEST);
  return Object.fromEntries(keys.map((it) => [it, value]));
}

/** A value of a property, by its type, and by what is done with it. */
function sampleOf(
  { name, type, fields }: Pick<Parameter, 'name' | 'type' | 'fields'>,
  text: string,
  way: Way,
): unknown {
  const { time } = way;
  const uses = (before: string, after = ''): RegExpExecArray | null =>
    new RegExp(String.raw`${before}[\w.?!]{1,60}\.${name.replace(/\W/g, '.')}\b${after}`).exec(text);
  const [, literal] =
    /^['"]([^'"]*)['"]/.exec(type) ??
    uses('', String.raw`\s*[!=]==?\s*['"]([\w .:-]{1,40})['"]`) ??
    uses(String.raw`switch\s*\(\s*`, String.raw`\s*\)\s*\{\s*case\s*['"]([^'"\n]{1,40})['"]`) ??
    [];
  if (literal !== undefined) return literal;
  if (/\[\]$|^(?:Readonly)?Array</.test(type)) return [];
  const number = isInstant(name) ? Date.parse(time) : isUsed(name) ? 0 : way.number;
  if (/^number\b/.test(type)) return number;
  if (/^boolean\b/.test(type)) return /active|enabled|open|valid|available|allowed/i.test(name);
  if (fields.length > 0) return Object.fromEntries(fields.map((it) => [it.name, sampleOf(it, text, way)]));
  if (uses(String.raw`(?:Date\.parse|new Date)\(`) !== null) return time;
  if (IS_URL.test(name)) return `${OTHER_URL}/a`;
  if (/^string\b/.test(type)) return isInstant(name) ? time : 'a';
  if (uses('', String.raw`\??\.(?:length|push|map|filter|find|some|every|includes|slice|forEach)\b`) !== null)
    return [];
  return uses('', String.raw`\??\.(?:trim|toUpperCase|toLowerCase|split|startsWith)\b`) !== null ? 'a' : number;
}

const IS_URL = /^(?:url|uri|href|link)$|(?:Url|URL|Uri|Href)$/;

function isInstant(name: string): boolean {
  return /(?:At|[uU]ntil|[dD]ate|[eE]xpir(?:y|es))$/.test(name);
}

/** What a run shows of an acquisition. */
interface Ran {
  readonly trial: Trial | null;
  readonly error: unknown;
}

/** What a lock reads may lead it to read more. */
const MOST_ROUNDS = 3;

/**
 * Makes a run again with what it has read stored, and leaves `bench` so if the lock is acquired then and was not before, if more is
 * sent and called under it, or if a value is changed by WATCH.
 *
 * @param before - A run with nothing more stored than is now.
 */
export async function withStored<R extends Ran>(bench: Bench, before: R, run: () => Promise<R | null>): Promise<R> {
  const { stored, finds } = bench;
  let best = (await withNothingFound(bench, before, run)) ?? before;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const more = await withMore(bench, best, run);
    if (more === null) break;
    best = more;
  }
  if (best === before || isBetter(best, before) || optimisticIn(best) !== null) return best;
  Object.assign(bench, { stored, finds });
  return before;
}

/** A statement that reads, after the name of what runs it. */
const SELECTS = /^\S+ \s*(?:select|with)\b/i;

/**
 * A run in which what is looked for elsewhere is not found, or is not found at first; `null` where no more work is done then.
 */
async function withNothingFound<R extends Ran>(
  bench: Bench,
  before: R,
  run: () => Promise<R | null>,
): Promise<R | null> {
  const worksIn = ({ trial }: Ran): number => trial?.works.filter(isWork).length ?? 0;
  const { trial } = before;
  const isGranted = trial?.isGranted === true;
  const isLook = (it: string): boolean => LOOKS_FOR.test(nameOfCall(it)) || SELECTS.test(it);
  // What it looks for may be what it has already done.
  const looks = isGranted ? trial.works.length > 0 : trial?.calls.some(isLook);
  if (!looks) return null;
  let best: R | null = null;
  let finds: Bench['finds'] = true;
  for (const tried of isGranted ? [false] : ([false, 'later'] as const)) {
    bench.finds = tried;
    const again = await run();
    const isMore = again !== null && worksIn(again) > worksIn(best ?? before);
    if (again === null || !isBetter(again, before) || (!isMore && (isGranted || best !== null))) continue;
    [best, finds] = [again, tried];
  }
  bench.finds = finds;
  return best;
}

/** One round: `null` where nothing that may be stored makes it do more. */
async function withMore<R extends Ran>(bench: Bench, before: R, run: () => Promise<R | null>): Promise<R | null> {
  const known = bench.stored;
  const isNew = ([, key]: readonly string[]): boolean => !known.some(([, other]) => other === key);
  for (const all of storedFor(before.trial, bench.program.sources)) {
    const more = all.filter(isNew);
    if (more.length === 0) continue;
    bench.stored = [...known, ...more];
    const again = await run();
    if (again !== null && doneIn(again) > doneIn(before)) return again;
  }
  bench.stored = known;
  return null;
}

function doneIn({ trial }: Ran): number {
  return (trial?.sent.length ?? 0) + (trial?.works.length ?? 0);
}

function isBetter(one: Ran, two: Ran): boolean {
  if (one.trial?.isGranted !== true) return false;
  if (two.trial?.isGranted !== true) return true;
  if (takesNothing(two.trial) && !takesNothing(one.trial)) return true;
  return one.trial.key === two.trial.key && (one.error === null || two.error !== null) && doneIn(one) > doneIn(two);
}
