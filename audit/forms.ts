/** Formats of names that programs validate, the likeliest first. Each is injective for short names. */
const FORMS: readonly ((name: string) => string)[] = [
  (name) => `00000000-0000-4000-8000-${hexOf(name, 12)}`,
  (name) => `A${hexOf(name, 7).toUpperCase()}`,
  (name) => `a${hexOf(name, 7)}`,
  (name) => `1${numberOf(name, 7)}`,
  (name) => `1${numberOf(name, 15)}`,
  (name) => `AB${numberOf(name, 4)}`,
  (name) => `AB-${numberOf(name, 4)}`,
  (name) => `a${hexOf(name, 7)}@example.com`,
];

/** A regular expression for a whole text. */
const WHOLE = /\/(\^(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\$)\/([a-z]*)/g;

function hexOf(name: string, digits: number): string {
  return Buffer.from(name).toString('hex').padStart(digits, '0').slice(-digits);
}

function numberOf(name: string, digits: number): string {
  const number = [...name].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9_973, 0);
  return String(number).padStart(digits, '0').slice(-digits);
}

/** A list of texts or numbers that are written out: one of them may be asked for. */
const LIST = /\[\s*((?:'[\w.:/-]+'|"[\w.:/-]+"|\d+)(?:\s*,\s*(?:'[\w.:/-]+'|"[\w.:/-]+"|\d+))+)\s*,?\s*\]/g;
/** Whether something is looked for in a list, or a text has to be of some form. */
const LOOKS =
  /\.includes\(|new Set\b.*\(\[|\.(?:enum|picklist)\(\[|\{\d+(?:,\d*)?\}\)?\$\/|\.length\s*(?:<|!==?)\s*\d|isUUID|\buuid\b.*test\(/i;

/** Whether a file asks for texts of a form, or for one of a list. */
export function looksAtForm(texts: readonly string[]): boolean {
  return texts.some((text) => LOOKS.test(text));
}

function listsIn(text: string): string[][] {
  return [...text.matchAll(LIST)].map(([, inner = '']) => inner.split(',').map((it) => it.replace(/['"\s]/g, '')));
}

/**
 * Formats a name so that it is in most of the lists in these texts, and matches most of their regular expressions; as a UUID
 * if no format matches any.
 */
export function formed(name: string, texts: readonly string[]): string {
  const forms = texts.flatMap((text) => [...text.matchAll(WHOLE)].flatMap(([, body = '', flags]) => made(body, flags)));
  const lists = texts.filter((text) => looksAtForm([text])).flatMap(listsIn);
  const fits = (it: string): number =>
    forms.filter((one) => one.test(it)).length + lists.filter((one) => one.includes(it)).length;
  const chosen = lists.map((one) => one[Number(numberOf(name, 4)) % one.length] ?? name);
  const names = [...FORMS.map((form) => form(name)), ...chosen];
  const most = Math.max(...names.map(fits));
  return names.find((it) => fits(it) === most) ?? name;
}

function made(body: string, flags = ''): RegExp[] {
  try {
    return [new RegExp(body, flags.replace(/[gy]/g, ''))];
  } catch {
    return [];
  }
}
