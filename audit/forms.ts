type Form = (name: string) => string;

/** A day of one month, so that a stay is short, whichever its days are. */
function dayFor(name: string, later: number): string {
  return `2097-05-${String(1 + later + (Number(numberOf(name, 3)) % 27)).padStart(2, '0')}`;
}

/** Formats of periods, by what they are called. */
const PERIODS: readonly (readonly [RegExp, Form])[] = [
  [/^(?:month|period)$/, (name) => `2${numberOf(name, 3)}-05`],
  [/^(?:day|date)$/, (name) => `2${numberOf(name, 3)}-05-18`],
  [/^year$/, (name) => `2${numberOf(name, 3)}`],
  [/^(?:arrival|check_?[iI]n)(?:_?(?:[dD]ay|[dD]ate|[oO]n))?$/, (name) => dayFor(name, 0)],
  [/^(?:departure|check_?[oO]ut)(?:_?(?:[dD]ay|[dD]ate|[oO]n))?$/, (name) => dayFor(name, 1)],
];

/** A name as a period, where something that is called so is one: `2097-05` for `month`. */
export function periodFor(called: string, name: string): string | undefined {
  return PERIODS.find(([pattern]) => pattern.test(called))?.[1](name);
}

/** For digits, where a name has letters alone. */
const LETTERS = 'bcdefghijk';

/** Formats of names that programs validate, the likeliest first. Each is injective for short names. */
const FORMS: readonly Form[] = [
  (name) => `00000000-0000-4000-8000-${hexOf(name, 12)}`,
  (name) => `A${hexOf(name, 7).toUpperCase()}`,
  (name) => `a${hexOf(name, 7)}`,
  (name) => `1${numberOf(name, 7)}`,
  (name) => `1${numberOf(name, 15)}`,
  (name) => `1${numberOf(name, 2)}`,
  (name) => `A${numberOf(name, 2)}`,
  (name) => `AB${numberOf(name, 4)}`,
  (name) => `AB-${numberOf(name, 4)}`,
  (name) => `a${hexOf(name, 7)}@example.com`,
  ...PERIODS.map(([, form]) => form),
  (name) => `no${name.replaceAll(/\d/g, (digit) => LETTERS[Number(digit)] ?? '')}`,
];

/** The format of names that match an expression as a whole: as they are, if no other does. */
export function formFor(expression: string): Form {
  const wanted = expressionsIn(`^(?:${expression})$`);
  return [String, ...FORMS].find((form) => wanted.some((it) => it.test(form('a')))) ?? String;
}

/** A regular expression for a whole text. */
const WHOLE = /\/(\^(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\$)\/([a-z]*)/g;

function hexOf(name: string, digits: number): string {
  return Buffer.from(name).toString('hex').padStart(digits, '0').slice(-digits);
}

function numberOf(name: string, digits: number): string {
  const number = [...name].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9_973, 0);
  return String(number).padStart(digits, '0').slice(-digits);
}

const ITEM = String.raw`(?:'[\w.:/-]+'|"[\w.:/-]+"|\d+)`;
/** A list of texts or numbers that is written out, with its name, or with what is asked of it. */
const LIST = new RegExp(
  String.raw`(?:\b(\w{1,60})\s*(?::[^=\n]{1,60})?=\s*)?((?:new )?[\w.<>]{0,40}\()?\[\s*(${ITEM}(?:\s*,\s*${ITEM})+)\s*,?\s*\](\s*\.includes\()?`,
  'g',
);
/** An object that is written out, with its name; its values have no objects in them. */
const TABLE = /\b(?:const|let|var)\s+(\w{1,60})\s*(?::[^=\n]{1,80})?=\s*(?:Object\.freeze\(\s*)?\{([^{}]{1,2000})\}/g;
const FIELD = /(?:^|[,\n{])\s*(['"]?)([\w-]+)\1\s*:/g;

/** The names of what objects have in which a file looks for something: `PRICES[plan]`. */
function tablesIn(text: string): string[][] {
  return [...text.matchAll(TABLE)]
    .filter(([, name]) => new RegExp(String.raw`\b${name}\[\s*[a-z]`).test(text))
    .map(([, , inner = '']) => [...inner.matchAll(FIELD)].map(([, , field = '']) => field))
    .filter((fields) => fields.length > 0);
}

/** Whether a text has to be of some form. */
const HAS_FORM = /\{\d+(?:,\d*)?\}\)?\$\/|\.length\s*(?:<|!==?)\s*\d|isUUID|\buuid\b.*test\(/i;

/** Whether files ask for texts of a form, or for one of a list. */
export function looksAtForm(texts: readonly string[]): boolean {
  return texts.some((text) => HAS_FORM.test(text) || listsIn(text).length > 0);
}

/** Lists in which a file looks for something. */
function listsIn(text: string): string[][] {
  const lists = [...text.matchAll(LIST)]
    .filter(
      ([, name, maker = '', , looks]) =>
        looks !== undefined ||
        /\.(?:enum|picklist)\($/.test(maker) ||
        (name !== undefined && new RegExp(String.raw`\b${name}\.(?:includes|has)\(`).test(text)),
    )
    .map(([, , , inner = '']) => inner.split(',').map((it) => it.replace(/['"\s]/g, '')));
  return [...lists, ...tablesIn(text)];
}

/**
 * Formats a name so that it is in most of the lists in these texts, and matches most of their regular expressions; as a UUID
 * if no format matches any.
 */
export function formed(name: string, texts: readonly string[]): string {
  const forms = texts.flatMap((text) =>
    [...text.matchAll(WHOLE)].flatMap(([, body = '', flags]) => expressionsIn(body, flags)),
  );
  const lists = texts.flatMap(listsIn);
  const fits = (it: string): number =>
    forms.filter((one) => one.test(it)).length + lists.filter((one) => one.includes(it)).length;
  const chosen = lists.map((one) => one[Number(numberOf(name, 4)) % one.length] ?? name);
  const names = [...FORMS.map((form) => form(name)), ...chosen];
  const most = Math.max(...names.map(fits));
  return names.find((it) => fits(it) === most) ?? name;
}

/** A regular expression of this text; none where it is no valid one. */
export function expressionsIn(body: string, flags: string = ''): RegExp[] {
  try {
    return [new RegExp(body, flags.replace(/[gy]/g, ''))];
  } catch {
    return [];
  }
}
