import { describe, expect, test } from 'vitest';
import type { HistoryLine } from '../../scenarios/history-line.js';
import { type Rules, SOUND } from './rules.js';
import { verifyBy, verifyHistory } from './verify.js';

/** Lines as a recorder writes them. */
function lines(...events: readonly HistoryLine[]): string[] {
  return events.map((event) => JSON.stringify(event));
}

/** A lock on `a` that is acquired at `fromUs`, valid for `validUs`, and released at `untilUs` if that is given. */
function held(lock: string, fromUs: number, validUs: number, untilUs?: number, errorUs = 0): HistoryLine[] {
  const at = (atUs: number) => ({ lock, atUs, errorUs });
  const events: HistoryLine[] = [
    { type: 'acquire', client: 'c1', resources: ['a'], ttlMs: 10, ...at(fromUs - 10) },
    { type: 'acquired', validUs, ...at(fromUs) },
  ];
  if (untilUs !== undefined) {
    events.push({ type: 'release', ...at(untilUs) }, { type: 'released', ...at(untilUs + 500) });
  }
  return events;
}

const acquire = (lock: string, atUs: number, resources: readonly string[] = ['a']): HistoryLine => {
  return { type: 'acquire', lock, client: 'c1', resources, ttlMs: 10, atUs };
};

/** Histories, with the number of violations that sound rules find. */
const HISTORIES: Readonly<Record<string, { readonly violations: number; readonly lines: readonly HistoryLine[] }>> = {
  'two that follow each other': {
    violations: 0,
    lines: [...held('x', 100, 5_000, 900), ...held('y', 2_000, 5_000)],
  },
  'two that touch at a release': {
    violations: 0,
    lines: [...held('x', 100, 5_000, 900), ...held('y', 900, 5_000)],
  },
  'two that touch at a deadline': { violations: 0, lines: [...held('x', 100, 5_000), ...held('y', 5_100, 5_000)] },
  'one that begins a microsecond before a deadline': {
    violations: 1,
    lines: [...held('x', 100, 5_000), ...held('y', 5_099, 5_000)],
  },
  'one that begins before a release is called': {
    violations: 1,
    lines: [...held('x', 100, 5_000, 900), ...held('y', 899, 5_000)],
  },
  'one that is acquired while a release is under way': {
    violations: 0,
    lines: [...held('x', 100, 5_000, 900), ...held('y', 1_000, 5_000)],
  },
  'one that is asked for while another holds': {
    violations: 0,
    lines: [
      ...held('x', 100, 5_000, 900),
      acquire('y', 200),
      { type: 'acquired', lock: 'y', atUs: 901, validUs: 9_000 },
    ],
  },
  'an overlap as small as the clock error': {
    violations: 0,
    lines: [...held('x', 100, 5_000, undefined, 50), ...held('y', 5_000, 5_000, undefined, 50)],
  },
  'an overlap beyond the clock error': {
    violations: 1,
    lines: [...held('x', 100, 5_000, undefined, 50), ...held('y', 4_999, 5_000, undefined, 50)],
  },
  'one whose end nobody knows': { violations: 0, lines: [acquire('x', 0), ...held('y', 2_000, 5_000)] },
  'one that holds through two others': {
    violations: 2,
    lines: [...held('x', 100, 9_000), ...held('y', 200, 5_000, 300), ...held('z', 400, 5_000)],
  },
  'one that goes on after another held in between': {
    violations: 1,
    lines: [
      ...held('x', 100, 1_000),
      ...held('y', 1_200, 500, 1_500),
      { type: 'extend', lock: 'x', atUs: 1_050, ttlMs: 10 },
      { type: 'extended', lock: 'x', atUs: 2_000, validUs: 5_000 },
    ],
  },
  'one that goes on before another is acquired': {
    violations: 0,
    lines: [
      ...held('x', 100, 1_000),
      { type: 'extend', lock: 'x', atUs: 1_050, ttlMs: 10 },
      { type: 'extended', lock: 'x', atUs: 1_200, validUs: 100 },
      ...held('y', 1_300, 500, 1_500),
    ],
  },
  'one that may have gone on before another was acquired, by their clocks': {
    violations: 0,
    lines: [
      ...held('x', 100, 1_000, undefined, 50),
      ...held('y', 1_160, 500, 1_500, 50),
      { type: 'extend', lock: 'x', atUs: 1_100, errorUs: 50, ttlMs: 10 },
      { type: 'extended', lock: 'x', atUs: 1_250, errorUs: 50, validUs: 20 },
    ],
  },
  'two on different resources': {
    violations: 0,
    lines: [
      ...held('x', 100, 5_000),
      acquire('y', 100, ['b']),
      { type: 'acquired', lock: 'y', atUs: 200, validUs: 1_000 },
    ],
  },
  'two that share one of their resources': {
    violations: 1,
    lines: [
      ...held('x', 100, 5_000),
      acquire('y', 100, ['b', 'a']),
      { type: 'acquired', lock: 'y', atUs: 200, validUs: 10 },
    ],
  },
};

describe('a history', () => {
  test.each(Object.entries(HISTORIES))('of %s gets its verdict, in any order of locks', (_name, history) => {
    const { verdict, violations } = verifyHistory(lines(...history.lines));
    expect(violations).toHaveLength(history.violations);
    expect(verdict).toBe(history.violations === 0 ? 'passed' : 'violated');
    const byLock = history.lines.toSorted((a, b) => (a.lock > b.lock ? -1 : a.lock < b.lock ? 1 : 0));
    expect(verifyHistory(lines(...byLock)).violations).toHaveLength(history.violations);
  });

  test('that is violated names the lines that show it', () => {
    const events = [
      ...held('x', 100, 5_000),
      acquire('y', 300),
      { type: 'acquired', lock: 'y', atUs: 400, validUs: 900 },
    ];
    expect(verifyHistory(lines(...(events as HistoryLine[])))).toEqual({
      verdict: 'violated',
      operations: 2,
      violations: [
        {
          property: 'mutual-exclusion',
          resource: 'a',
          lines: [2, 4],
          detail: 'locks "x" and "y" both hold a from 400 to 1300 µs',
        },
      ],
      doubts: [],
    });
  });

  test('keeps a lock that was extended in time, and none that was not', () => {
    const extended = (atUs: number): HistoryLine[] => [
      ...held('x', 100, 5_000),
      { type: 'extend', lock: 'x', atUs: 4_000, ttlMs: 10 },
      { type: 'extended', lock: 'x', atUs, validUs: 5_000 },
    ];
    const rival = held('y', 5_500, 100);
    expect(verifyHistory(lines(...extended(5_000), ...rival)).verdict).toBe('violated');
    // Too late: another held it in between, and nobody was told.
    const late = verifyHistory(lines(...extended(5_700), ...rival));
    expect(late.violations).toMatchObject([{ property: 'lost-lock', lines: [2, 4, 6] }]);
    expect(verifyHistory(lines(...extended(5_700), ...held('y', 8_000, 100))).verdict).toBe('violated');
    expect(verifyHistory(lines(...extended(5_700), ...held('y', 10_700, 100))).verdict).toBe('passed');
    const failed: HistoryLine = { type: 'not-extended', lock: 'x', atUs: 4_500, validUs: 0 };
    const lost = [...extended(5_000).slice(0, 3), failed];
    expect(verifyHistory(lines(...lost, ...held('y', 4_600, 100))).verdict).toBe('passed');
  });

  test('with a claim of more than the TTL is violated', () => {
    const { verdict, violations } = verifyHistory(lines(...held('x', 100, 10_001)));
    expect([verdict, violations[0]?.property, violations[0]?.lines]).toEqual(['violated', 'acquisition', [2]]);
    expect(verifyHistory(lines(...held('x', 100, 10_000))).verdict).toBe('passed');
    const extension: HistoryLine[] = [
      { type: 'extend', lock: 'x', atUs: 200, ttlMs: 20 },
      { type: 'extended', lock: 'x', atUs: 300, validUs: 20_001 },
    ];
    const extended = verifyHistory(lines(...held('x', 100, 5_000), ...extension));
    expect([extended.verdict, extended.violations[0]?.property]).toEqual(['violated', 'extension']);
  });

  test('with a write when the lock is not certainly held is inconclusive at most', () => {
    const write = (atUs: number): HistoryLine => ({ type: 'write', lock: 'x', resource: 'a', atUs });
    expect(verifyHistory(lines(...held('x', 100, 5_000), write(5_099))).verdict).toBe('passed');
    const late = verifyHistory(lines(...held('x', 100, 5_000), write(5_100), ...held('y', 5_100, 5_000)));
    expect(late.verdict).toBe('inconclusive');
    expect(late.doubts).toEqual([
      { resource: 'a', lines: [3], detail: 'lock "x" writes to a at 5100 µs, when nobody can say that it is held' },
    ]);
    const released = verifyHistory(lines(...held('x', 100, 5_000, 900), write(1_400)));
    expect(released.verdict).toBe('inconclusive');
  });

  test('in which nobody held anything is inconclusive', () => {
    expect(verifyHistory([]).verdict).toBe('inconclusive');
    const failed: HistoryLine = { type: 'failed', lock: 'x', atUs: 10 };
    expect(verifyHistory(lines(acquire('x', 0), failed))).toMatchObject({ verdict: 'inconclusive', operations: 1 });
  });

  test('that is cut off in its last line is inconclusive, unless the rest is violated', () => {
    const cut = (events: readonly HistoryLine[]) => [...lines(...events), '{"type":"acqui'];
    expect(verifyHistory(cut(held('x', 100, 5_000)))).toMatchObject({
      verdict: 'inconclusive',
      doubts: [{ lines: [3], detail: 'the history is cut off in its last line' }],
    });
    expect(verifyHistory(cut([...held('x', 100, 5_000), ...held('y', 200, 5_000)])).verdict).toBe('violated');
  });

  test('may have empty lines, and the line ends of Windows', () => {
    expect(verifyHistory([...lines(...held('x', 100, 5_000)).map((line) => `${line}\r`), '', '']).verdict).toBe(
      'passed',
    );
  });
});

test.each<[string, string[], string]>([
  ['text', ['hello', ''], 'line 1: it is not JSON; each line must be one complete JSON object'],
  ['a list', ['[1]'], 'line 1: it must be a JSON object, but it is a list'],
  [
    'a line cut off in the middle',
    ['{"type":', '{}'],
    'line 1: it is not JSON; each line must be one complete JSON object',
  ],
  ['an unknown type', ['{"type":"aquired"}'], 'line 1: /type is "aquired"; did you mean "acquired"?'],
  ['no lock', ['{"type":"failed"}'], 'line 1: /lock must be a text that names the lock, but it is undefined'],
  [
    'a time that is none',
    ['{"type":"failed","lock":"x","atUs":1.5}'],
    'line 1: /atUs must be a whole number of µs, but it is 1.5',
  ],
  [
    'a negative error',
    ['{"type":"failed","lock":"x","atUs":1,"errorUs":-1}'],
    'line 1: /errorUs must be a whole number of µs from 0, but it is -1',
  ],
  [
    'a missing field',
    ['{"type":"acquired","lock":"x","atUs":1}'],
    'line 1: /validUs of acquired must be a whole number of µs from 0, but it is undefined',
  ],
  [
    'an end without its call',
    ['{"type":"acquired","lock":"x","atUs":1,"validUs":1}'],
    'line 1: lock "x" was never acquired; its "acquire" must come first',
  ],
  [
    'one name for two locks',
    lines(acquire('x', 1), acquire('x', 2)),
    'line 2: lock "x" was acquired in line 1 already',
  ],
  [
    'an end that cannot be',
    lines(...held('x', 100, 1_000), { type: 'failed', lock: 'x', atUs: 200 }),
    'line 3: "failed" makes no sense for lock "x", which is held',
  ],
  [
    'lines out of order',
    lines(acquire('x', 5), { type: 'failed', lock: 'x', atUs: 4 }),
    'line 2: it is at 4 µs, but line 1 of the same lock is at 5 µs; one observer writes all lines of a lock, in order',
  ],
  [
    'a write to something else',
    lines(...held('x', 100, 1_000), { type: 'write', lock: 'x', resource: 'b', atUs: 200 }),
    'line 3: lock "x" is not on "b"',
  ],
])('%s is told with its line', (_name, given, message) => {
  expect(() => verifyHistory(given)).toThrow(expect.objectContaining({ name: 'InputError', message }));
});

test.each<Partial<Rules>>([
  { closed: true },
  { shrinks: false },
  { endsAt: 'answer' },
  { beginsAt: 'call' },
  { unknownHolds: true },
  { comparesWith: 'last' },
  { noticesLoss: false },
])('a checker with %o would be noticed', (planted) => {
  const wrong = Object.values(HISTORIES).filter((history) => {
    return verifyBy({ ...SOUND, ...planted }, lines(...history.lines)).violations.length !== history.violations;
  });
  expect(wrong.length).toBeGreaterThan(0);
});

test('100 000 operations are judged as a few are', () => {
  const text: string[] = [];
  for (let i = 0; i < 50_000; i++) {
    const events = held(`l${i}`, 20 + i * 1_000, 9_000, 900 + i * 1_000);
    text.push(
      ...lines(...events.map((event) => ('resources' in event ? { ...event, resources: [`r${i % 7}`] } : event))),
    );
  }
  expect(verifyHistory(text)).toMatchObject({ verdict: 'passed', operations: 100_000 });
});
