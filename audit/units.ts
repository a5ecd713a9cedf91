/** What a lock is asked for at first: a TTL that nobody is likely to have written down, ms. */
export const FIRST_TTL_MS = 7_000;

/** From one slot of a schedule to the next, by its name. */
export const IS_PERIOD: RegExp = /^(?:every|(?:period|interval)(?:ms|s|seconds)?$)/i;

/** A duration, as the libraries for times have it: `asMilliseconds` of dayjs and moment, `toMillis` of luxon. */
export function durationOf(ms: number): object {
  const as = (unit: string): number => ms / (/^(?:ms|milli)/i.test(unit) ? 1 : /^s/i.test(unit) ? 1_000 : 60_000);
  const named = ['Milliseconds', 'Seconds', 'Minutes'].map((unit) => [`as${unit}`, () => as(unit)] as const);
  return { ...Object.fromEntries(named), as, toMillis: () => ms, valueOf: () => ms };
}

/** How many ms a TTL of 1 means, by the name of what it is; `null` where that does not tell. */
export function unitIn(name: string): number | null {
  if (/ms$|milli|^px$/i.test(name)) return 1;
  return /sec(?:ond)?s?$|^ex$/i.test(name) || /(?:[a-z]|_)S$/.test(name) ? 1_000 : null;
}

/** The same by what a comment says. */
export function unitSaid(comment: string): number | null {
  const isMs = /\b(?:milliseconds?|millis|ms)\b/i.test(comment);
  const isS = /\b(?:seconds?|secs?)\b/i.test(comment);
  return isMs === isS ? null : isMs ? 1 : 1_000;
}

const BLOCK_BEFORE =
  /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*(?:(?:export|default|async|function|public|private|protected|static|override|const|let|var|[\w$.]+\s*[:=])\s*)*$/;
const LINE_BEFORE = /(?:\/\*\*?((?:(?!\*\/)[\s\S])*)\*\/|\/\/([^\n]*))\s*$/;
/** Further before there is nothing that is about what comes after it. */
const NEAR = 3_000;

/** What the comment before a function says of one of its parameters. */
export function parameterSaid(before: string, name: string): number | null {
  const [, block = ''] = BLOCK_BEFORE.exec(before.slice(-NEAR)) ?? [];
  // A type names others, too: `@param {{ ttl?: number, lockMs?: number }} [options] the ttl in seconds`.
  const texts = block.split('@').map((it) => it.replace(/\{.*\}/, ''));
  const line = texts.find((it) => new RegExp(`^param\\s[^\\n]*?(?:^|[\\s.[])${name}\\b`).test(it));
  return name === '' || line === undefined ? null : unitSaid(line);
}

/** What the comment before or behind a property says of it. */
export function propertySaid(before: string, after: string): number | null {
  const [, block, line] = LINE_BEFORE.exec(before.slice(-NEAR)) ?? [];
  const behind = /^[,;]?[^\S\n]*\/\/([^\n]*)/.exec(after)?.[1];
  return unitSaid(behind ?? block ?? line ?? '');
}

const NUMBERS = /\b([A-Za-z_$][\w$]*)\s*(?::\s*number\s*)?[=:]\s*(\d[\d_]*(?:\s*\*\s*\d[\d_]*)*)(?![\w.])([^\n]*)/g;
const IS_TTL = /ttl|lock|lease|expir|hold|timeout|duration|life|^sec(?:ond)?s$/i;

/** What a name of the environment is where it is not set: `env.LOCK_SECONDS ?? 240`, `number('LOCK_SECONDS', 240)`. */
const DEFAULTS =
  /(?:\benv(?:\.|\[\s*['"])|\(\s*['"])([A-Z][A-Z0-9_]*)(?:['"]\s*\])?(?:['"]\s*,|\s*(?:\?\?|\|\|))\s*['"]?(\d[\d_]*)(?![\w.*])()/g;

/** The same in a schema: `LOCK_TTL_SEC: z.coerce.number().default(1800)`. */
const SCHEMA_DEFAULTS = /\b(\w+)\s*:\s*z\.[\w.()]*?\.default\(\s*(\d[\d_]*)\s*()\)/g;

/** The line before it is a comment that begins with the unit: `// seconds; an import takes up to ten minutes`. */
const UNIT_BEFORE = /\/\/\s*(?:in\s+)?(seconds?|secs?|milliseconds?|millis|ms)\b[^\n]*\n[^\n]*$/i;

/** The unit of a number that is written as a product: `10 * 60` is seconds. */
function unitMade(product: string): number | null {
  const factors = product.split('*').map((it) => Number(it.replaceAll('_', '')));
  return factors.length > 1 && factors.includes(60) && factors.every((it) => it < 1_000) ? 1_000 : null;
}

/** A number that has a name, and the unit that this or a comment tells. */
export interface Named {
  readonly name: string;
  readonly unitMs: number;
}

/** The name that files give to this number as a TTL; `null` where they do not agree. */
export function namedAs(sources: readonly { readonly text: string }[], value: number): Named | null {
  const found = sources.flatMap(({ text }) =>
    [NUMBERS, DEFAULTS, SCHEMA_DEFAULTS]
      .flatMap((all) => [...text.matchAll(all)])
      .flatMap((match) => {
        const [, name = '', product = '', rest = ''] = match;
        const number = product.split('*').reduce((all, it) => all * Number(it.replaceAll('_', '')), 1);
        const unitMs =
          unitIn(name) ??
          unitSaid(/\/\/(.*)/.exec(rest)?.[1] ?? UNIT_BEFORE.exec(text.slice(0, match.index))?.[1] ?? '') ??
          unitMade(product);
        return number === value && unitMs !== null && IS_TTL.test(name) ? [{ name, unitMs }] : [];
      }),
  );
  const [first = null] = found;
  return found.every(({ unitMs }) => unitMs === first?.unitMs) ? first : null;
}
