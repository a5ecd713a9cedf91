import { describe, expect, test } from 'vitest';
import type { HistoryLine, LockLine } from '../../scenarios/history-line.js';
import { type Rules, SOUND } from './rules.js';
import { verifyBy, verifyHistory } from './verify.js';

/** Lines as a recorder writes them. */
function lines(...events: readonly HistoryLine[]): string[] {
  return events.map((event) => JSON.stringify(event));
}

/** A lock on `a` that is acquired at `fromUs`, valid for `validUs`, and released at `untilUs` if that is given. */
function held(lock: string, fromUs: number, validUs: number, untilUs?: number, errorUs = 0): LockLine[] {
  const at = (atUs: number) => ({ lock, atUs, errorUs });
  const events: LockLine[] = [
    { type: 'acquire', client: 'c1', resources: ['a'], ttlMs: 10, ...at(fromUs - 10) },
    { type: 'acquired', validUs, ...at(fromUs) },
  ];
  if (untilUs !== undefined) {
    events.push({ type: 'release', ...at(untilUs) }, { type: 'released', ...at(untilUs + 500) });
  }
  return events;
}

const acquire = (lock: string, atUs: number, resources: readonly string[] = ['a']): LockLine => {
  return { type: 'acquire', lock, client: 'c1', resources, ttlMs: 10, atUs };
};

const extend = (lock: string, atUs: number, ttlMs: number): LockLine => ({ type: 'extend', lock, atUs, ttlMs });

const crashed = (atUs: number, errorUs = 0): HistoryLine => ({ type: 'crashed', client: 'c1', atUs, errorUs });

/** The same lines, of client `c2`. */
function ofAnother(events: readonly LockLine[]): LockLine[] {
  return events.map((event) => (event.type === 'acquire' ? { ...event, client: 'c2' } : event));
}

/** A lock with this fencing token that was asked for and held between these instants, and released at the end. */
function fenced(lock: string, counter: number, [calledUs, fromUs, untilUs]: [number, number, number]): LockLine[] {
  const fencingToken = { counter, attempt: null };
  return [
    acquire(lock, calledUs),
    { type: 'acquired', lock, atUs: fromUs, validUs: 5_000, fencingToken },
    { type: 'release', lock, atUs: untilUs },
  ];
}

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
  // 10 ms less the 5 that the first claim had lost: the new 6 ms end at 2 000 or later.
  'one that asks for less, and may hold on to less since': {
    violations: 0,
    lines: [...held('x', 100, 5_000), extend('x', 1_000, 6), ...held('y', 2_000, 500)],
  },
  'one that asks for less, a microsecond before it may hold on to less': {
    violations: 1,
    lines: [...held('x', 100, 5_000), extend('x', 1_000, 6), ...held('y', 1_999, 500)],
  },
  'one that asked for less, and never heard what came of it': {
    violations: 0,
    lines: [
      ...held('x', 100, 5_000),
      extend('x', 1_000, 6),
      { type: 'unknown', lock: 'x', atUs: 1_100 },
      ...held('y', 2_000, 500),
    ],
  },
  'one that asked for less in vain, and goes on with what it had': {
    violations: 1,
    lines: [
      ...held('x', 100, 5_000),
      extend('x', 1_000, 6),
      { type: 'not-extended', lock: 'x', atUs: 2_500, validUs: 2_000 },
      ...held('y', 4_499, 500),
    ],
  },
  'one that asks for less, and for which another call goes on': {
    violations: 0,
    lines: [
      ...held('x', 100, 5_000),
      extend('x', 1_000, 6),
      extend('x', 1_100, 20),
      { type: 'not-extended', lock: 'x', atUs: 1_200, validUs: 3_900 },
      ...held('y', 2_000, 500),
    ],
  },
  'one that asks for more in the end': {
    violations: 1,
    lines: [...held('x', 100, 5_000), extend('x', 1_000, 20), ...held('y', 5_000, 500)],
  },
  'one whose client has died': {
    violations: 0,
    lines: [...held('x', 100, 5_000), crashed(1_000), ...ofAnother(held('y', 1_000, 5_000))],
  },
  'one whose client dies a microsecond too late': {
    violations: 1,
    lines: [...held('x', 100, 5_000), crashed(1_001), ...ofAnother(held('y', 1_000, 5_000))],
  },
  'one whose client had been dead for some time': {
    violations: 0,
    lines: [...held('x', 100, 5_000), crashed(2_000, 1_000), ...ofAnother(held('y', 1_000, 5_000))],
  },
  'one whose client had died before, and came back': {
    violations: 1,
    lines: [crashed(80), ...held('x', 100, 5_000), ...ofAnother(held('y', 1_000, 500))],
  },
  'one whose client may have died in between, but lived on': {
    violations: 1,
    lines: [...held('x', 100, 5_000, 4_000), crashed(1_000, 950), ...ofAnother(held('y', 1_000, 500))],
  },
  'one with nothing left': { violations: 1, lines: held('x', 100, 0) },
  'one that is extended with nothing left': {
    violations: 1,
    lines: [...held('x', 100, 5_000), extend('x', 1_000, 10), { type: 'extended', lock: 'x', atUs: 1_100, validUs: 0 }],
  },
  'fencing tokens that rise': {
    violations: 0,
    lines: [...fenced('x', 7, [0, 100, 200]), ...fenced('y', 8, [150, 300, 400]), ...fenced('z', 9, [500, 600, 700])],
  },
  'a fencing token below that of a lock that was there when it was asked for': {
    violations: 1,
    lines: [...fenced('x', 7, [0, 100, 900]), ...fenced('y', 6, [100, 900, 950])],
  },
  'a fencing token below that of a lock that was over when it was acquired': {
    violations: 1,
    lines: [...fenced('x', 7, [0, 100, 200]), ...fenced('y', 6, [50, 200, 400])],
  },
  'one fencing token for two locks': {
    violations: 1,
    lines: [...fenced('x', 7, [0, 100, 200]), ...fenced('y', 7, [0, 200, 400])],
  },
  'fencing tokens in an order that the clocks do not prove': {
    violations: 0,
    lines: [...fenced('x', 7, [0, 100, 200]), ...fenced('y', 6, [150, 240, 400])].map((line) => ({
      ...line,
      errorUs: 26,
    })),
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
    const nameOf = (line: HistoryLine): string => (line.type === 'crashed' ? '' : line.lock);
    const byLock = history.lines.toSorted((a, b) => (nameOf(a) > nameOf(b) ? -1 : nameOf(a) < nameOf(b) ? 1 : 0));
    expect(verifyHistory(lines(...byLock)).violations).toHaveLength(history.violations);
  });

  test('that is violated names the lines that show it', () => {
    const events = [
      ...held('x', 100, 5_000),
      acquire('y', 300),
      { type: 'acquired', lock: 'y', atUs: 400, validUs: 900 },
    ];
    expect(verifyHistory(lines(...(events as LockLine[])))).toEqual({
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
    const extended = (atUs: number): LockLine[] => [
      ...held('x', 100, 5_000),
      { type: 'extend', lock: 'x', atUs: 4_000, ttlMs: 10 },
      { type: 'extended', lock: 'x', atUs, validUs: 5_000 },
    ];
    const rival = held('y', 5_500, 100);
    expect(verifyHistory(lines(...extended(5_000), ...rival)).verdict).toBe('violated');
    // Too late: another held it in between, and nobody was told.
    const late = verifyHistory(lines(...extended(5_700), ...rival));
    expect(late.violations).toMatchObject([{ property: 'loss-notified', lines: [2, 4, 6] }]);
    expect(verifyHistory(lines(...extended(5_700), ...held('y', 8_000, 100))).verdict).toBe('violated');
    expect(verifyHistory(lines(...extended(5_700), ...held('y', 10_700, 100))).verdict).toBe('passed');
    const failed: LockLine = { type: 'not-extended', lock: 'x', atUs: 4_500, validUs: 0 };
    const lost = [...extended(5_000).slice(0, 3), failed];
    expect(verifyHistory(lines(...lost, ...held('y', 4_600, 100))).verdict).toBe('passed');
  });

  test('with a claim of more than the TTL is violated', () => {
    const { verdict, violations } = verifyHistory(lines(...held('x', 100, 10_001)));
    expect([verdict, violations[0]?.property, violations[0]?.lines]).toEqual(['violated', 'acquisition', [2]]);
    expect(verifyHistory(lines(...held('x', 100, 10_000))).verdict).toBe('passed');
    const extension: LockLine[] = [
      { type: 'extend', lock: 'x', atUs: 200, ttlMs: 20 },
      { type: 'extended', lock: 'x', atUs: 300, validUs: 20_001 },
    ];
    const extended = verifyHistory(lines(...held('x', 100, 5_000), ...extension));
    expect([extended.verdict, extended.violations[0]?.property]).toEqual(['violated', 'extension']);
  });

  test('with a write when the lock is not certainly held is inconclusive at most', () => {
    const write = (atUs: number): LockLine => ({ type: 'write', lock: 'x', resource: 'a', atUs });
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
    const failed: LockLine = { type: 'failed', lock: 'x', atUs: 10 };
    expect(verifyHistory(lines(acquire('x', 0), failed))).toMatchObject({ verdict: 'inconclusive', operations: 1 });
  });

  test('that is cut off in its last line is inconclusive, unless the rest is violated', () => {
    const cut = (events: readonly LockLine[]) => [...lines(...events), '{"type":"acqui'];
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
    'line 3: "failed" makes no sense for lock "x", of which no call waits for that end',
  ],
  [
    'lines out of order',
    lines(acquire('x', 5), { type: 'failed', lock: 'x', atUs: 4 }),
    'line 2: it is at 4 µs, but line 1 of the same lock is at 5 µs; one observer writes all lines of a lock, in order',
  ],
  [
    'a call of a client that had died',
    lines(...held('x', 100, 1_000), crashed(150, 10), { type: 'release', lock: 'x', atUs: 161 }),
    'line 4: client "c1" had crashed by then, as line 3 says; only a write may come later',
  ],
  [
    'a crash of nobody',
    ['{"type":"crashed","atUs":1}'],
    'line 1: /client of crashed must be a text that is not empty, but it is undefined',
  ],
  [
    'a fencing token that is none',
    ['{"type":"acquired","lock":"x","atUs":1,"validUs":1,"fencingToken":7}'],
    'line 1: /fencingToken of acquired must be {"counter": a whole number from 0, "attempt": a text or null}, but it is 7',
  ],
  [
    'a fencing token without an attempt',
    ['{"type":"acquired","lock":"x","atUs":1,"validUs":1,"fencingToken":{"counter":7}}'],
    'line 1: /fencingToken of acquired must be {"counter": a whole number from 0, "attempt": a text or null}, but it is {"counter": 7, "attempt": undefined}',
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
  { capsShorter: false },
  { heedsCrashes: false },
  { nothingIsWrong: false },
  { comparesTokens: false },
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
