import { describe, expect, test } from 'vitest';
import { hasFencingTokens, type PolicyChange, policyOf, policyWith } from '../deviations/index.js';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { InputError } from './input-error.js';
import { MITIGATIONS, mitigate } from './mitigations.js';
import { parseSchedule } from './parse-schedule.js';

const schedule = parseSchedule(everyField.schedule);
const locks = (text: string) => mitigate(schedule, text).clients.flatMap((client) => client.locks);

const VALUES: Record<string, readonly string[]> = {
  persistence: ['always', 'none'],
  fsync: ['always', 'no'],
  'restart-delay': ['ttl', '0', '12s'],
  nodes: ['1', '3', '31'],
  membership: ['all'],
  wait: ['replica', 'disk', 'none'],
  ttl: ['1ms', '30s'],
  'votes-wanted': ['all', 'quorum', '4'],
  'drift-allowance': ['1%', '0', '0.5%', '100%'],
  clock: ['boot', 'monotonic', 'wall'],
  deadline: ['absolute', 'relative'],
  'min-validity': ['0', '100ms'],
  'node-timeout': ['50ms', 'none'],
  sending: ['parallel', 'sequential'],
  settle: ['early', 'all'],
  cleanup: ['all', 'granted', 'none'],
  'extend-from': ['start', 'reply'],
  'max-extensions': ['0', '3', 'none'],
  link: ['fifo', 'reordering'],
  scripts: ['by-text', 'by-hash'],
  guard: ['0', '2s'],
  resource: ['fencing', 'cas', 'none'],
  fencing: ['quorum', 'none'],
  rejoin: ['copy', 'at-once'],
  'lock-delay': ['1s'],
  'own-key': ['vote', 'refusal'],
  'token-check': ['on', 'off'],
  tokens: ['try', 'call'],
  jitter: ['0', '100ms'],
  policy: ['reference'],
};

describe.each(MITIGATIONS)('$name=$values', ({ name, description }) => {
  test.each(VALUES[name] ?? [])('%s gives a valid schedule and leaves its argument alone', (value) => {
    const before = structuredClone(schedule);
    const mitigated = mitigate(schedule, `${name}=${value}`);
    expect(parseSchedule(mitigated)).toStrictEqual(mitigated);
    expect(mitigate(mitigated, `${name}=${value}`)).toStrictEqual(mitigated);
    expect(schedule).toStrictEqual(before);
  });

  test('is described in one line', () => {
    expect(VALUES[name]).toBeDefined();
    expect(description).toMatch(/^[^\n]{10,110}[^.]$/);
  });
});

test('membership=all takes lists, prefixes and changes of lists away', () => {
  const { clients, faults } = mitigate(schedule, 'membership=all');
  expect(clients.filter((client) => 'nodes' in client || 'keyPrefix' in client)).toEqual([]);
  expect(faults.filter(({ kind }) => kind === 'reconfigure')).toEqual([]);
  expect(faults.length).toBe(schedule.faults.length - 1);
});

test('a resource that looks at fencing tokens is given some, and none looks where there are none', () => {
  const bare = mitigate(mitigate(schedule, 'fencing=none'), 'resource=none');
  expect(hasFencingTokens(policyOf(bare.policy))).toBe(false);
  const fenced = mitigate(bare, 'resource=fencing');
  expect([fenced.resource, fenced.policy.settings?.fencing]).toEqual(['fencing', true]);
  expect(mitigate(bare, 'resource=cas').policy.settings?.fencing).toBe(false);
  expect(mitigate(fenced, 'fencing=none').resource).toBe('none');
  expect(mitigate(fenced, 'policy=reference').policy).toEqual({
    profile: 'reference',
    settings: { fencing: true },
  });
});

test('persistence, by either name', () => {
  expect(mitigate(schedule, 'persistence=always').cluster).toEqual({ ...schedule.cluster, persistence: 'always' });
  expect(mitigate(schedule, 'fsync=always')).toEqual(mitigate(schedule, 'persistence=always'));
  expect(mitigate(mitigate(schedule, 'fsync=always'), 'fsync=no')).toEqual(schedule);
});

describe('restart-delay', () => {
  const delays = (text: string) =>
    mitigate(schedule, text).faults.flatMap((fault) => (fault.kind === 'crash' ? [fault.restartAfterUs] : []));

  test('delays restarts, and restarts nothing that stays down', () => {
    expect(delays('restart-delay=12s')).toEqual([12_000_000, null]);
  });

  test('ttl is 1 ms more than the longest TTL, extensions included', () => {
    expect(delays('restart-delay=ttl')).toEqual([20_001_000, null]);
  });

  test('shortens none', () => {
    const patient = mitigate(schedule, 'restart-delay=12s');
    expect(mitigate(patient, 'restart-delay=50ms')).toEqual(patient);
  });

  test('stays within what a schedule can say', () => {
    const endless = mitigate(schedule, 'ttl=4503599627370ms');
    expect(parseSchedule(mitigate(endless, 'restart-delay=ttl')).faults[0]).toMatchObject({ restartAfterUs: 2 ** 52 });
  });
});

describe('nodes', () => {
  test('fewer take with them what befell them', () => {
    const { cluster, faults, fates } = mitigate(schedule, 'nodes=2');
    expect(cluster.nodes).toBe(2);
    expect(cluster.distances).toEqual(schedule.cluster.distances.slice(0, 1));
    expect(cluster.clocks.map(({ process }) => process)).toEqual(['n0', 'c1']);
    expect(faults.map(({ kind }) => kind)).toEqual([
      'failover',
      'client-crash',
      'pause',
      'clock-drift',
      'reconfigure',
      'partition',
    ]);
    expect(fates).toEqual([schedule.fates[0]]);
  });

  test('a partition keeps the sides that are left, and goes with the last of one', () => {
    const partitions = (nodes: number) => {
      const cut = {
        kind: 'partition',
        atUs: 0,
        from: ['n1', 'c1'],
        to: ['n2', 'n3'],
        oneWay: false,
        forUs: 1,
      } as const;
      return mitigate({ ...schedule, faults: [cut] }, `nodes=${nodes}`).faults;
    };
    expect(partitions(3)).toEqual([expect.objectContaining({ from: ['n1', 'c1'], to: ['n2'] })]);
    expect(partitions(1)).toEqual([]);
  });

  test('more change nothing else', () => {
    expect(mitigate(schedule, 'nodes=7')).toEqual({ ...schedule, cluster: { ...schedule.cluster, nodes: 7 } });
  });
});

test('ttl reaches locks and extensions', () => {
  expect(locks('ttl=30s').map(({ ttlMs }) => ttlMs)).toEqual([30_000, 30_000, 30_000]);
  expect(locks('ttl=30s')[0]?.extensions).toEqual([{ afterUs: 5_000_000, ttlMs: 30_000 }]);
});

test('guard reaches every write, also those that did not check', () => {
  expect(locks('guard=2s').flatMap(({ writes }) => writes.map(({ guardUs }) => guardUs))).toEqual([2e6, 2e6]);
});

test.each([
  ['votes-wanted=all', { votesWanted: 'all' }],
  ['votes-wanted=4', { votesWanted: 4 }],
  ['min-validity=100ms', { minValidityUs: 100_000 }],
  ['node-timeout=50ms', { nodeTimeoutUs: 50_000 }],
  ['node-timeout=none', { nodeTimeoutUs: null }],
  ['max-extensions=1', { maxExtensions: 1 }],
  ['max-extensions=none', { maxExtensions: null }],
  ['drift-allowance=1%', { driftPpm: 10_000 }],
  ['drift-allowance=0.0001', { driftPpm: 1 }],
  ['lock-delay=2s', { lockDelayMs: 2_000 }],
  ['fencing=none', { fencing: false }],
])('%s is a setting', (text, settings) => {
  const before = policyOf(schedule.policy);
  expect(policyOf(mitigate(schedule, text).policy)).toEqual(policyWith({ settings } as PolicyChange, before));
});

test.each([
  ['sending=parallel', [], ['asks-in-turn']],
  ['settle=early', [], ['settles-with-all']],
  ['settle=all', [], []],
  ['cleanup=all', [], ['cleans-granted']],
  ['cleanup=none', ['cleans-nothing'], ['cleans-granted']],
  ['extend-from=start', [], ['extension-counts-from-reply']],
  ['extend-from=reply', [], []],
  ['own-key=refusal', [], ['own-key-renews']],
  ['token-check=on', [], []],
  ['token-check=off', ['deletes-any'], ['gets-then-deletes']],
  ['rejoin=copy', [], ['counter-from-zero']],
  ['rejoin=copy-if-missing', ['counter-kept'], ['counter-from-zero']],
])('%s adds %j and takes %j away', (text, added, removed) => {
  const before = policyOf(schedule.policy).deviations;
  const after = policyOf(mitigate(schedule, text).policy).deviations;
  expect(after.filter((it) => !before.includes(it))).toEqual(added);
  expect(before.filter((it) => !after.includes(it))).toEqual(removed);
});

test('rounds that are decided early have releases and clean-ups that are, unless those go out one after the other', () => {
  const plain = { ...schedule, policy: { profile: 'node-redlock-4' } };
  const early = policyOf(mitigate(plain, 'settle=early').policy).deviations;
  expect(early.filter((it) => /^(settles|release-awaits|awaits)-/.test(it))).toEqual(['awaits-clean-up']);
  const inTurn = { ...schedule, policy: { profile: 'redlock-php' } };
  const slow = policyOf(mitigate(inTurn, 'settle=early').policy).deviations;
  expect(slow.filter((it) => /^(settles|release-awaits|awaits)-/.test(it))).toEqual([
    'release-awaits-all',
    'awaits-whole-clean-up',
  ]);
  expect(policyOf(mitigate(mitigate(plain, 'settle=early'), 'settle=all').policy)).toEqual(policyOf(plain.policy));
});

test('an allowance that is added to the validity is none, and goes where another is asked for', () => {
  const added = { ...schedule, policy: { profile: 'reference', deviations: ['drift-added'] } };
  expect(policyOf(mitigate(added, 'drift=2%').policy)).toEqual(policyOf(mitigate(added, 'drift-allowance=2%').policy));
  expect(policyOf(mitigate(added, 'drift-allowance=2%').policy)).toEqual(
    policyWith({ settings: { driftPpm: 20_000 } }),
  );
});

test('clock and deadline are those of all clients, whatever one has for itself', () => {
  const own = (text: string): unknown => mitigate(schedule, text).clients.map(({ timing }) => timing);
  expect(mitigate(schedule, 'clock=monotonic').policy.habits?.clock).toBe('monotonic');
  expect(own('clock=monotonic')).toEqual([{ deadline: 'deadline-stamps-us:1000' }, undefined]);
  expect(own('deadline=relative')).toEqual([{ clock: 'wall' }, undefined]);
  expect(own('policy=reference')).toEqual([undefined, undefined]);
  const deadlines = (text: string) =>
    policyOf(mitigate(schedule, text).policy).deviations.filter((it) => it.startsWith('deadline-'));
  expect(deadlines('deadline=relative')).toEqual(['deadline-counted-after-us:5000']);
  expect(deadlines('deadline=absolute')).toEqual(['deadline-stamps-us:1000']);
  const plain = { ...schedule, policy: { profile: 'reference' } };
  expect(mitigate(plain, 'deadline=absolute').policy).toEqual(plain.policy);
  expect(mitigate(plain, 'deadline=relative').policy.deviations).toEqual(['deadline-counted-after-us:0']);
});

test('scripts are about the cluster', () => {
  expect(mitigate(schedule, 'scripts=by-text').cluster).toEqual({ ...schedule.cluster, scripts: 'by-text' });
});

test('link is about the cluster', () => {
  expect(mitigate(schedule, 'link=reordering').cluster).toEqual({ ...schedule.cluster, link: 'reordering' });
  expect(mitigate(schedule, 'link=fifo').cluster.link).toBe('fifo');
});

test('policy takes the profile as it is', () => {
  expect(mitigate(mitigate(schedule, 'fencing=none'), 'policy=reference').policy).toEqual({ profile: 'reference' });
});

describe('jitter', () => {
  test('fills in what the plans leave open, for as many attempts as there are', () => {
    expect(mitigate(schedule, 'jitter=100ms').policy.settings?.retryJitterUs).toBe(100_000);
    expect(locks('jitter=100ms').map(({ jitterPpm }) => jitterPpm)).toEqual([
      [0, 999_999, 82_136],
      [32_248, 764_299, 496_350],
      [236_068, 968_119, 700_170],
    ]);
  });

  test('has an end for clients that never give up', () => {
    const endless = mitigate(
      { ...schedule, policy: { profile: 'reference', settings: { tries: null } } },
      'jitter=1ms',
    );
    expect(endless.clients[1]?.locks[0]?.jitterPpm.length).toBe(64);
  });

  test('takes the number of attempts from the profile where the schedule names none', () => {
    const plain = mitigate({ ...schedule, policy: { profile: 'reference' } }, 'jitter=1ms');
    expect(plain.clients[1]?.locks[0]?.jitterPpm.length).toBe(11);
  });
});

test('says what would be right', () => {
  const wrong = [
    'persistance=always',
    'prayer=on',
    'fsync=everysec',
    'fsync=alway',
    'fsync',
    'ttl=',
    'ttl=5',
    'ttl=250us',
    'ttl=-1',
    'nodes=0',
    'nodes=many',
    'votes-wanted=most',
    'drift-allowance=101%',
    'drift-allowance=little',
    'token-check=yes',
    'clock=monotone',
    'max-extensions=-1',
    'policy=redsink',
    'restart-delay=soon',
    'toString=1',
  ];
  expect(wrong.map(complaint)).toMatchInlineSnapshot(`
    [
      ""persistance" is not a mitigation; did you mean "persistence"?",
      ""prayer" is not a mitigation; the mitigations are persistence, fsync, restart-delay, wait, nodes, membership, ttl, votes-wanted, drift-allowance, clock, deadline, min-validity, …",
      "accepted",
      "mitigation "fsync=alway": "alway" is not one of its values; did you mean "always"?",
      "mitigation "fsync" has no value; write fsync=always|everysec|no",
      "mitigation "ttl=" has no value; write ttl=<duration>",
      "mitigation "ttl=5": duration "5" has no unit; write it like 10s, 50ms or 250us",
      "mitigation "ttl=250us": "250us" is not a whole number of milliseconds from 1 up; write it like 10s or 50ms",
      "mitigation "ttl=-1": "-1" is not a duration; write it like 10s, 50ms or 250us",
      "mitigation "nodes=0": "0" is not a whole number from 1 to 31",
      "mitigation "nodes=many": "many" is not a whole number from 1 to 31",
      "mitigation "votes-wanted=most": "most" is not a whole number from 1 to 31, or all, or quorum",
      "mitigation "drift-allowance=101%": "101%" is not a percentage from 0 to 100 with at most 4 decimals; write it like 1%",
      "mitigation "drift-allowance=little": "little" is not a percentage from 0 to 100 with at most 4 decimals; write it like 1%",
      "mitigation "token-check=yes": "yes" is not one of its values; they are on, off",
      "mitigation "clock=monotone": "monotone" is not one of its values; did you mean "monotonic"?",
      "mitigation "max-extensions=-1": "-1" is not a whole number from 0 to 1000000, or none",
      "mitigation "policy=redsink": "redsink" is not a profile; the profiles are reference, antirez-redlock-rb, redlock-rb, redlock-py, aioredlock, pottery, glasslion-redlock, redis-distlock, lyokato-redlock, redlock-php, php-lock-3, php-redis-mutex, …",
      "mitigation "restart-delay=soon": "soon" is not a duration; write it like 10s, 50ms or 250us",
      ""toString" is not a mitigation; the mitigations are persistence, fsync, restart-delay, wait, nodes, membership, ttl, votes-wanted, drift-allowance, clock, deadline, min-validity, …",
    ]
  `);
});

function complaint(text: string): string {
  try {
    mitigate(schedule, text);
    return 'accepted';
  } catch (error) {
    expect(error).toBeInstanceOf(InputError);
    return String(error instanceof Error ? error.message : error);
  }
}
