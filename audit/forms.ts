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

/** Formats a name so that it matches most of the regular expressions in these texts; as a UUID if no format matches any. */
export function formed(name: string, texts: readonly string[]): string {
  const wanted = texts.flatMap((text) =>
    [...text.matchAll(WHOLE)].flatMap(([, body = '', flags]) => made(body, flags)),
  );
  const fits = (it: string): number => wanted.filter((one) => one.test(it)).length;
  const names = FORMS.map((form) => form(name));
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
