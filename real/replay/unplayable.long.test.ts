import { describe, expect, test } from 'vitest';
import { DEVIATIONS, type PolicyChange, parseDeviation, rulesOf } from '../../deviations/index.js';
import { FAULT_KINDS, type Fate, scenarioJsonSchema } from '../../scenarios/index.js';
import { lock, type Parts, schedule } from '../../sim/testing/schedule.js';
import { simulated, staged } from '../testing/same-words.js';
import { useVirtualTime } from '../testing/virtual-stage.js';
import { notReplayableReason, PLAYED } from './unplayable.js';

useVirtualTime();

interface Grammar {
  readonly enum?: readonly string[];
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly anyOf?: readonly Grammar[];
  readonly properties?: { readonly [field: string]: Grammar };
}

const { $defs } = scenarioJsonSchema() as { readonly $defs: { readonly [name: string]: Grammar } };

/** Numbers to try: counts; and durations, which are whole milliseconds, because timers are. */
const NUMBERS = [-20_000, -1, 0, 1, 2, 3, 4, 20_000, 100_000, 300_000, 2_000_000, 9_000_000];

/** Values that the grammar lets a field have. */
function valuesOf(field: string, { enum: names, type, minimum = 0, maximum = 0, anyOf }: Grammar): unknown[] {
  if (anyOf !== undefined) return anyOf.flatMap((it) => valuesOf(field, it));
  if (names !== undefined) return [...names];
  if (type === 'boolean') return [false, true];
  if (type === 'null') return [null];
  const whole = field.endsWith('Us') || field.endsWith('Ppm') ? 1000 : 1;
  return NUMBERS.filter((it) => it >= minimum && it <= maximum && it % whole === 0);
}

type Change = (base: PolicyChange) => PolicyChange;
type Choice = readonly [name: string, changes: readonly Change[]];

/** A setting or a habit with each of its values. */
function choices(part: 'settings' | 'habits'): readonly Choice[] {
  const fields = Object.entries($defs.PolicyChoice?.properties?.[part]?.properties ?? {});
  return fields.map(([field, grammar]) => [
    field,
    valuesOf(field, grammar).map((value) => (base) => ({ ...base, [part]: { ...base[part], [field]: value } })),
  ]);
}

/** A deviation that is there, and one that is not. Where it would undo another, that gives way. */
function deviating(name: string): readonly Change[] {
  const { range } = DEVIATIONS[name] ?? {};
  const [least, most] = range ?? [0, 0];
  const numbers = NUMBERS.filter((it) => it >= least && it <= most && (most < 100 || it % 1000 === 0));
  const references = range === null ? [name] : numbers.map((it) => `${name}:${it}`);
  const ruleOf = (it: string) => parseDeviation(it).deviation.rule;
  const without: Change = ({ deviations = [], ...base }) => {
    return { ...base, deviations: deviations.filter((it) => parseDeviation(it).name !== name) };
  };
  const having = (reference: string): Change => {
    return (base) => {
      const { deviations = [] } = without(base);
      const both = [...deviations, reference];
      return {
        ...base,
        deviations: stand(both) ? both : [...deviations.filter((it) => ruleOf(it) !== ruleOf(reference)), reference],
      };
    };
  };
  return [without, ...references.map(having)];
}

/** Whether none of them would undo another. */
function stand(deviations: readonly string[]): boolean {
  try {
    rulesOf(deviations);
    return true;
  } catch {
    return false;
  }
}

/** Deviations by their rule; those of scripts, which are of different commands, each by itself. */
const groupOf = (name: string): string => {
  const rule = DEVIATIONS[name]?.rule;
  return rule === undefined || rule === 'scripts' ? name : rule;
};
const DEVIATING: readonly Choice[] = [...new Set(Object.keys(DEVIATIONS).map(groupOf))].map((group) => [
  group,
  Object.keys(DEVIATIONS)
    .filter((name) => groupOf(name) === group)
    .flatMap(deviating),
]);

const late = (fields: Partial<Fate> & Pick<Fate, 'node' | 'operation'>): Fate => ({
  client: 'c1',
  direction: 'reply',
  ...fields,
});

/** Schedules on which clients differ, each with what else they choose. */
const BASES: readonly Parts[] = [
  // Contention, late and lost answers, an extension, releases, a second lock of one client.
  {
    policy: { settings: { retryJitterUs: 0, tries: 4 } },
    locks: [
      [
        lock(0, { holdUs: 700_000, extensions: [{ afterUs: 300_000, ttlMs: 10_000 }] }),
        lock(900_000, { holdUs: 50_000 }),
      ],
      [lock(30_000, { holdUs: 100_000 })],
      [lock(740_000, { holdUs: 12_000_000 })],
    ],
    fates: [
      late({ operation: 'acquire', node: 'n1', delayUs: 70_000 }),
      late({ operation: 'acquire', node: 'n2', lost: true }),
      late({ operation: 'acquire', node: 'n0', client: 'c2', attempt: 1, delayUs: 120_000 }),
      late({ operation: 'extend', node: 'n0', lost: true }),
      late({ operation: 'release', node: 'n3', direction: 'request', delayUs: 260_000 }),
      late({ operation: 'release', node: 'n4', lock: 1, direction: 'request', lost: true }),
    ],
  },
  // Attempts that fail on nodes that answer late or never.
  {
    policy: { settings: { retryJitterUs: 20_000, tries: 3 } },
    locks: [[lock(0, { jitterPpm: [0, 999_999] })], [lock(5_000, { holdUs: 3_000_000 })]],
    fates: [0, 1].flatMap((attempt) =>
      ['n0', 'n1', 'n2'].flatMap((node, i) => [
        late({ attempt, operation: 'acquire', node, delayUs: 60_000 + 10_000 * i + 90_000 * attempt }),
        late({ attempt, operation: 'release', node, delayUs: 40_000 + 30_000 * i }),
      ]),
    ),
  },
  // A claim that comes late in the life of its keys, and extends itself.
  {
    policy: {
      settings: { retryJitterUs: 0, nodeTimeoutUs: null, autoExtendAtUs: 150_000, maxExtensions: 3, driftPpm: 20_000 },
    },
    locks: [
      [lock(0, { ttlMs: 400, holdUs: 1_600_000, extensions: [{ afterUs: 20_000, ttlMs: 60 }] })],
      [lock(350_000, { ttlMs: 300, holdUs: 200_000 })],
    ],
    fates: [
      ...['n0', 'n1', 'n2'].map((node) => late({ operation: 'acquire', node, delayUs: 330_000 })),
      ...['n0', 'n1', 'n2'].map((node) => late({ operation: 'extend', round: 1, node, delayUs: 180_000 })),
    ],
  },
  // One whose client is frozen over its end, and extends then; and another who came in between.
  {
    policy: { settings: { retryJitterUs: 0, tries: 2, autoExtendAtPpm: 200_000 } },
    locks: [
      [lock(0, { ttlMs: 500, holdUs: 2_000_000, extensions: [{ afterUs: 450_000, ttlMs: 500 }] })],
      [lock(520_000, { ttlMs: 500, holdUs: 40_000 })],
      [lock(1_100_000, { ttlMs: 500, holdUs: 40_000 })],
    ],
    faults: [{ kind: 'pause', process: 'c1', atUs: 400_000, forUs: 300_000 }],
  },
  // The same, and the other still holds the lock.
  {
    policy: { settings: { retryJitterUs: 0 }, deviations: ['deadline-counted-after-us:0', 'extends-late'] },
    locks: [
      [lock(0, { ttlMs: 450, holdUs: 2_000_000, extensions: [{ afterUs: 450_000, ttlMs: 500 }] })],
      [lock(520_000, { ttlMs: 1_000, holdUs: 800_000 })],
    ],
    faults: [{ kind: 'pause', process: 'c1', atUs: 400_000, forUs: 300_000 }],
  },
  // Two who call at once, and a third when the keys of the first request are over.
  {
    policy: { settings: { retryJitterUs: 0, tries: 2 }, deviations: ['own-key-grants'] },
    locks: [[lock(0, { ttlMs: 600 })], [lock(0, { ttlMs: 600 })], [lock(610_000, { ttlMs: 600, holdUs: 10_000 })]],
    fates: ['n0', 'n1', 'n2', 'n3', 'n4'].flatMap((node) => [
      late({ operation: 'acquire', node, direction: 'request', resendAfterUs: 30_000 }),
      late({ operation: 'acquire', node, lost: true }),
    ]),
  },
  // Requests that come after their release, and releases that come to nothing.
  {
    cluster: { link: 'reordering' },
    policy: { settings: { retryJitterUs: 0, tries: 2, releaseTries: 3 }, deviations: ['release-must-delete'] },
    locks: [[lock(0, { holdUs: 400_000 })], [lock(900_000)]],
    fates: [
      ...['n0', 'n1', 'n2'].map((node) => late({ operation: 'acquire', node, direction: 'request', delayUs: 80_000 })),
      ...['n0', 'n1', 'n2'].map((node) =>
        late({ operation: 'release', attempt: 1, node, direction: 'request', lost: true }),
      ),
    ],
  },
  // A request that is sent again, and one that is copied.
  {
    policy: { settings: { retryJitterUs: 0, tries: 3 }, deviations: ['own-key-grants'] },
    locks: [[lock(0, { ttlMs: 600, holdUs: 300_000 })], [lock(650_000, { ttlMs: 600 })]],
    fates: [
      ...['n0', 'n1', 'n2'].map(
        (node): Fate => late({ operation: 'acquire', node, direction: 'request', resendAfterUs: 30_000 }),
      ),
      ...['n0', 'n1', 'n2'].map((node) => late({ operation: 'acquire', node, lost: true })),
      late({ operation: 'release', node: 'n4', direction: 'request', duplicateDelayUs: 500_000 }),
    ],
  },
  // A last attempt that fails, and is cleaned up on one node after the other, of which one does not answer.
  {
    policy: { settings: { tries: 1 }, deviations: ['releases-in-turn', 'release-awaits-all'] },
    locks: [[lock(0, { holdUs: 2_000_000 })], [lock(30_000)]],
    fates: [late({ client: 'c2', operation: 'release', node: 'n1', direction: 'request', lost: true })],
  },
  // Nodes that miss the SET and the release, and hear the extension between them.
  {
    policy: { settings: { retryJitterUs: 0, tries: 2 } },
    locks: [
      [lock(0, { holdUs: 700_000, extensions: [{ afterUs: 300_000, ttlMs: 10_000 }] })],
      [lock(950_000, { holdUs: 50_000 })],
    ],
    fates: [
      ...['n0', 'n1'].map((node) => late({ operation: 'acquire', node, direction: 'request', lost: true })),
      ...['n0', 'n1', 'n2'].map((node) => late({ operation: 'release', node, direction: 'request', lost: true })),
    ],
  },
  // A holder whose clock is set back, others whose machines stand still, one of them while it extends itself.
  {
    policy: {
      settings: { retryJitterUs: 0, tries: 3, autoExtendAtUs: 100_000, maxExtensions: 2 },
      habits: { clock: 'wall' },
    },
    locks: [
      [lock(0, { ttlMs: 500, holdUs: 900_000 })],
      [lock(600_000, { ttlMs: 500, holdUs: 700_000 })],
      [lock(1_200_000, { ttlMs: 500, holdUs: 40_000 })],
    ],
    faults: [
      { kind: 'clock-step', process: 'c1', atUs: 200_000, byUs: -300_000 },
      { kind: 'suspend', process: 'c2', atUs: 620_000, forUs: 300_000 },
      { kind: 'suspend', process: 'c3', atUs: 1_210_000, forUs: 100_000, stops: 'all' },
    ],
  },
];

describe('each choice of a policy', () => {
  const { settings, habits } = PLAYED;
  const isPlayed = new Map<string, unknown>(Object.entries({ ...settings, ...habits }));
  // Without counters nobody rejoins, or writes any; and a token that is a counter alone has none.
  const uncounted = (name: string): boolean => /^(counter-|fencing$|grants-count)/.test(name);
  const played = [
    ...[...choices('settings'), ...choices('habits')].filter(([field]) => isPlayed.get(field) === 'played'),
    ...DEVIATING.filter(([name]) => !uncounted(name)),
  ];

  test('is in the list', () => {
    const fields = [...choices('settings'), ...choices('habits')].map(([field]) => field);
    expect(fields.sort()).toEqual([...isPlayed.keys()].sort());
  });

  test.each(played)('%s is played as it is simulated', (name, changes) => {
    const told = new Set<string>();
    for (const [i, base] of BASES.entries()) {
      for (const change of changes) {
        const policy = change(base.policy ?? {});
        const plan = schedule({ ...base, policy });
        expect(notReplayableReason(plan, true)).toBeNull();
        const real = staged(plan);
        expect(real, `base ${i}, ${name} ${JSON.stringify(policy)}`).toEqual(simulated(plan));
        told.add(`${i} ${real.join()}`);
      }
    }
    // Something depends on it.
    expect(told.size).toBeGreaterThan(BASES.length);
  });

  test.each([
    ['settings.fencing', { settings: { fencing: true } }],
    ['habits.nodesFrom', { habits: { nodesFrom: 'connected' } }],
    ['deviations: grants-count', { deviations: ['grants-count'] }],
    ['deviations: fence-max', { deviations: ['fence-max', 'grants-count'] }],
  ] as const)('%s is refused by its name', (path, policy) => {
    expect(notReplayableReason(schedule({ policy }), true)).toMatch(new RegExp(`^policy\\.${path}: `));
  });
});

test.each([
  ['c1', 1_000, 'faults[0].byUs: timers that wait do not hear that their clock is set ahead'],
  ['c1', -1_000, null],
  ['n1', 1_000, null],
])('the clock of %s set by %d µs: %s', (process, byUs, reason) => {
  const plan = schedule({ faults: [{ kind: 'clock-step', process, atUs: 0, byUs }] });
  expect(notReplayableReason(plan, true)).toBe(reason);
});

test('each kind of fault is in the list', () => {
  expect(Object.keys(PLAYED.fault).sort()).toEqual([...FAULT_KINDS].sort());
});
