import { expect, test } from 'vitest';
import { judgeObserved } from '../properties/history/observed.js';
import type { LockLine } from '../scenarios/history-line.js';
import { describeEvent } from './event-words.js';
import { type Staged, takenOfObserved } from './observed.js';
import { sceneOf } from './picture/scene.js';
import { CATALOGUE } from './testing/scenes.js';

const schedule = CATALOGUE.find(({ id }) => id === 'S03')?.schedule;
if (schedule === undefined) throw new Error('there is no S03');
const ms = (it: number): number => it * 1000;
const asks = (client: string, lock: string, atMs: number): LockLine => ({
  type: 'acquire',
  client,
  lock,
  resources: ['a'],
  ttlMs: 1_000,
  atUs: ms(atMs),
});
const got = (lock: string, atMs: number, validMs: number): LockLine => ({
  type: 'acquired',
  lock,
  atUs: ms(atMs),
  validUs: ms(validMs),
});
const seen = (history: readonly LockLine[], down: Staged['down'] = []): Staged => ({
  faults: [],
  history,
  down,
  blocked: [],
  unsupported: [],
  unfounded: [],
  waiting: [],
  patienceUs: ms(5_000),
  endUs: ms(10_000),
});
const takenOf = (observed: Staged): ReturnType<typeof takenOfObserved> =>
  takenOfObserved(schedule, observed, judgeObserved(observed));

const BOTH = [asks('c1', 'x', 0), got('x', 10, 900), asks('c2', 'y', 20), got('y', 30, 900)];

test('two that held at once are both there, with who, when and how long', () => {
  const taken = takenOf(seen(BOTH));
  expect(taken.verdict).toBe('violated');
  expect(taken.heading).toMatchObject({ verdict: 'bad', title: 'mutual exclusion' });
  expect(taken.heading.sentences).toEqual(['c1 and c2 both held a for 880 ms.']);
  expect(taken.violations).toMatchObject([
    { property: 'mutual-exclusion', kind: 'belief', atUs: ms(30), untilUs: ms(910), clients: ['c1', 'c2'] },
  ]);
  expect(taken.claims.map(({ client, fromUs, endUs }) => [client, fromUs, endUs])).toEqual([
    ['c1', ms(10), ms(910)],
    ['c2', ms(30), ms(930)],
  ]);
  const scene = sceneOf(schedule, taken);
  expect(taken.events.map((event) => `${event.process} ${describeEvent(event, scene)}`)).toEqual([
    'c1 calls acquire(a), TTL 1 000 ms',
    'c1 holds A, valid until 910',
    'c2 calls acquire(a), TTL 1 000 ms',
    'c2 holds B, valid until 930',
  ]);
});

test('a lock that is released in time leaves nothing to tell of', () => {
  const released: LockLine = { type: 'release', lock: 'x', atUs: ms(15) };
  const [first, second, ...rest] = BOTH;
  if (first === undefined || second === undefined) throw new Error('it has four lines');
  const taken = takenOf(seen([first, second, released, ...rest]));
  expect(taken).toMatchObject({ verdict: 'safe', violations: [], outages: [] });
  expect(taken.heading.sentences).toEqual(['Nothing was violated.']);
  expect(taken.claims[0]).toMatchObject({ end: 'released', endUs: ms(15) });
});

test('a time without a quorum is an outage', () => {
  const { verdict, outages, heading } = takenOf(seen([], [{ fromUs: ms(100), toUs: ms(400) }]));
  expect(verdict).toBe('unavailable');
  expect(outages).toEqual([{ fromUs: ms(100), toUs: ms(400), reason: 'no-quorum-up' }]);
  expect(heading.sentences[0]).toContain('Nobody could acquire for 300 ms, from 100 on');
});

test('what was done to a node stands among what its clients did', () => {
  const fault = { kind: 'crash', node: 'n2', atUs: ms(12), restartAfterUs: ms(3) } as const;
  const { events } = takenOf({
    ...seen(BOTH),
    faults: [
      { fault, what: 'struck', atUs: ms(13) },
      { fault, what: 'back', atUs: ms(18) },
    ],
  });
  expect(events.map(({ kind, process, atUs }) => `${atUs / 1000} ${process} ${kind}`)).toEqual([
    '0 c1 call',
    '10 c1 claim',
    '13 n2 crash',
    '18 n2 restart',
    '20 c2 call',
    '30 c2 claim',
  ]);
  expect(events[3]).toMatchObject({ cause: 2 });
});
