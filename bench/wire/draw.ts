/** Chance, from 0 to 1, excluded. */
export type Random = () => number;

/** One of the items. */
export function oneOf<T>(random: Random, items: readonly T[]): T {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error('nothing to choose from');
  return item;
}

/** A whole number from 0 to a limit, excluded. */
export function below(random: Random, limit: number): number {
  return Math.floor(random() * limit);
}

/** The keys that commands are about: few, so that they meet. */
export const KEYS: readonly string[] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

const INTEGERS = [
  ...['0', '1', '2', '3', '5', '10', '-1', '-2', '-3', '-10', '100', '1000', '9007199254740993'],
  ...['9223372036854775807', '-9223372036854775808', '9223372036854775808', '01', '+1', '1.0', 'x', '', '-0'],
] as const;
/** Those that times are drawn from: simulated servers have doubles for times beyond 2^53. */
const TIMES = INTEGERS.filter((it) => it !== '9007199254740993' && it !== '9223372036854775807');
const FLOATS = [
  ...['0', '1', '-1', '1.5', '-2.25', '0.1', '3.14159', '1e3', '1e-5', '123456789.123', '1e20', '5.0e-324'],
  ...['inf', '-inf', '+inf', 'nan', 'x', '', '1e400', '0x10', ' 1', '1 ', '-0'],
] as const;
const SCORES = ['0', '1', '2', '3', '-1', '1.5', '2.5', '10', '100', '0.1', '-0.5', '1e3'] as const;
const BOUNDS = ['-inf', '+inf', 'inf', '0', '1', '2', '(1', '(2', '3', '-1', '(inf', 'x', '(', '1.5'] as const;
const LEXES = ['-', '+', '[a', '(a', '[m', '(m', '[z', '[', 'x', ''] as const;
const MEMBERS = ['a', 'b', 'c', 'm', 'x', 'y', 'z', '1', '2', '3', '10', '-5', 'aa', '', 'é\0\r\n'] as const;
const TTLS = [
  '1',
  '2',
  '5',
  '10',
  '100',
  '1000',
  '3000',
  '100000',
  '0',
  '-1',
  '-1000',
  'x',
  '9223372036854775807',
] as const;
const PATTERNS = ['*', 'a*', '?', '[a-c]', '[^a]', '\\a', 'a', '*a*', '[', '[]', '[z-a]'] as const;

/** Argument drawers by the word that templates use for them. */
const DRAWERS: Readonly<Record<string, (random: Random) => readonly string[]>> = {
  key: (random) => [oneOf(random, KEYS)],
  keys: (random) => Array.from({ length: 1 + below(random, 3) }, () => oneOf(random, KEYS)),
  value: (random) => [
    random() < 0.3 ? oneOf(random, FLOATS) : random() < 0.5 ? oneOf(random, MEMBERS) : String(below(random, 1000)),
  ],
  long: (random) => ['v'.repeat(below(random, 100))],
  int: (random) => [random() < 0.6 ? String(below(random, 12) - 5) : oneOf(random, INTEGERS)],
  float: (random) => [random() < 0.5 ? oneOf(random, SCORES) : oneOf(random, FLOATS)],
  small: (random) => [oneOf(random, SCORES)],
  score: (random) => [random() < 0.9 ? oneOf(random, SCORES) : oneOf(random, FLOATS)],
  bound: (random) => [oneOf(random, BOUNDS)],
  lex: (random) => [oneOf(random, LEXES)],
  member: (random) => [oneOf(random, MEMBERS)],
  members: (random) => Array.from({ length: 1 + below(random, 4) }, () => oneOf(random, MEMBERS)),
  many: (random) => Array.from({ length: 1 + below(random, 140) }, (_, i) => `m${i}`),
  pairs: (random) =>
    Array.from({ length: 1 + below(random, 3) }, () => [oneOf(random, MEMBERS), oneOf(random, MEMBERS)]).flat(),
  keyPairs: (random) =>
    Array.from({ length: 1 + below(random, 3) }, () => [oneOf(random, KEYS), oneOf(random, MEMBERS)]).flat(),
  scored: (random) =>
    Array.from({ length: 1 + below(random, 3) }, () => [oneOf(random, SCORES), oneOf(random, MEMBERS)]).flat(),
  ttl: (random) => [oneOf(random, TTLS)],
  seconds: (random) => [oneOf(random, ['1', '2', '3', '100', ...TTLS])],
  at: (random) => [random() < 0.8 ? String(1_735_689_600 + below(random, 200)) : oneOf(random, TIMES)],
  atMs: (random) => [random() < 0.8 ? String(1_735_689_600_000 + below(random, 100_000)) : oneOf(random, TIMES)],
  pattern: (random) => [oneOf(random, PATTERNS)],
  side: (random) => [oneOf(random, ['LEFT', 'right', 'RIGHT', 'left', 'up'])],
  minmax: (random) => [oneOf(random, ['MIN', 'max', 'min', 'MAX', 'mid'])],
  offset: (random) => [random() < 0.8 ? String(below(random, 40)) : oneOf(random, ['-1', 'x', '1.5'])],
  db: (random) => [oneOf(random, ['0', '0', '0', '1', '2', '-1', '16', 'x'])],
  group: (random) => [oneOf(random, ['g', 'h'])],
  entryId: (random) => [
    oneOf(random, ['*', '*', '5', '5-1', '5-*', '7-3', '9-*', '9', '0-0', '0', '0-*', 'x', '1-x', '1-2-3']),
  ],
  edge: (random) => [oneOf(random, ['-', '+', '5', '5-1', '(5-1', '(7', '7', '9-2', '(0-0', '(-', '(+', 'x', '0'])],
  // A key count and the keys that go with it, mostly.
  counted: (random) => {
    const keys = Array.from({ length: 1 + below(random, 3) }, () => oneOf(random, KEYS));
    return [random() < 0.9 ? String(keys.length) : oneOf(random, INTEGERS), ...keys];
  },
};

/**
 * A command from a template: `SET key value [EX ttl|PX ttl] [NX]`. Words in lower case are drawn, groups in brackets are
 * left out at times, and one of their alternatives is taken.
 */
export function fromTemplate(random: Random, template: string): string[] {
  const argv: string[] = [];
  for (const [, group, word = ''] of template.matchAll(/\[([^\]]*)\]|(\S+)/g)) {
    const words = group === undefined ? [word] : random() < 0.4 ? oneOf(random, group.split('|')).split(' ') : [];
    for (const it of words) argv.push(...(DRAWERS[it]?.(random) ?? [it]));
  }
  return argv;
}

/** A command that is not quite right, at times: an argument less, one more, or another. */
export function spoiled(random: Random, argv: readonly string[]): readonly string[] {
  const chance = random();
  if (chance > 0.06) return argv;
  if (chance < 0.02) return argv.slice(0, Math.max(1, argv.length - 1));
  if (chance < 0.04) return [...argv, oneOf(random, ['x', '1', 'NX', 'a'])];
  const place = 1 + below(random, argv.length);
  return argv.map((it, i) => (i === place ? oneOf(random, [...TIMES, 'NX', 'LIMIT']) : it));
}
