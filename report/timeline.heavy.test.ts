import { expect, test } from 'vitest';
import { judge } from '../properties/index.js';
import { findScenario } from '../scenarios/catalogue.js';
import { type Cluster, type Fault, mitigate, type Schedule } from '../scenarios/index.js';
import { formatTimeline } from './timeline.js';

const base = findScenario('S03').schedule;
const [lock] = base.clients[0]?.locks ?? [];
if (lock === undefined) throw new Error('S03 has no lock');

/** Five nodes, one way 1 ms, one client that takes `a` at 0; and what the test adds. */
function schedule(parts: Partial<Omit<Schedule, 'cluster'>> & { readonly cluster?: Partial<Cluster> } = {}): Schedule {
  const clients = lock === undefined ? [] : [{ id: 'c1', locks: [lock] }];
  return { ...base, clients, faults: [], fates: [], ...parts, cluster: { ...base.cluster, ...parts.cluster } };
}

function text(given: Schedule): string {
  return formatTimeline(given, judge(given, [], true));
}

/** Only the table: time, who, what, without what follows two spaces or more. */
function rows(given: Schedule): string[] {
  const lines = text(given).split('\n').slice(3);
  return lines.slice(0, lines.indexOf('')).map((line) => line.trim().replace(/\s{2,}(·|HELD)( .*)?$/, ''));
}

test('a pause that ends a claim unnoticed, and the late write after it', () => {
  expect(text(findScenario('S24').schedule)).toMatchInlineSnapshot(`
    "  5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

          t/ms  who     what                                        c1    c2
           0    c1 → *  SET a A NX PX 10000                          ·     ·
           2    c1      n0 n1 n2 granted, 3/5, valid until 9 898   HELD    ·
           2.5  c1      checks its lock: 9 895.5 ms left           HELD    ·
           7    c1      is frozen until 20 000                     HELD    ·
       9 898    c1      validity ends, unnoticed                     ·     ·
      10 001    c2 → *  SET a B NX PX 10000                          ·     ·
      10 002    n0–n4   A expires                                    ·     ·
      10 003    c2      n0 n1 n2 granted, 3/5, valid until 19 899    ·   HELD
      10 003.5  c2      checks its lock: 9 895.5 ms left             ·   HELD
      10 004.5  c2      sends a write to a                           ·   HELD
      10 005.5  c2      its write reaches a                          ·   HELD
      19 899    c2      validity ends                                ·     ·
      20 000    c1      sends a write to a                           ·     ·
      20 000    c1      sees that its validity has ended             ·     ·
      20 001    c1      its write reaches a                          ·     ·    ← not held
      20 003    n0–n4   B expires                                    ·     ·

      ✗ no stale write
        A write of c1 reached a 10 103 ms after its claim had ended: c1 was frozen from 7 to
        20 000, between its check and the write; c2 had written meanwhile, at 10 005.5.
      Assumptions of the lock that the schedule breaks: bounded-write-delay (a write may be
      later than its check allows).
    "
  `);
});

test('an extension, and an answer that comes too late', () => {
  expect(text(findScenario('S23').schedule)).toMatchInlineSnapshot(`
    "  5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

        t/ms  who      what                                            c2
           0  c1 → *   SET a A NX PX 10000                              ·
           1  c1       is frozen until 20 000                           ·
      10 001  c2 → *   SET a B NX PX 10000                              ·
      10 002  n0–n4    A expires                                        ·
      10 003  c2       n0 n1 n2 granted, 3/5, valid until 19 899      HELD
      15 003  c2 → *   PEXPIRE a 10000 if B                           HELD
      15 005  c2       extended by n0 n1 n2, 3/5, valid until 24 901  HELD
      20 000  c1 → *   DEL a if A                                     HELD
      20 000  c1       gives up: no validity is left                  HELD
      20 002  c1 → n3  DEL a if A                                     HELD
      20 002  c1 → n4  DEL a if A                                     HELD
      24 901  c2       validity ends                                    ·
      25 005  n0–n4    B expires                                        ·

      ✓ safe   Nothing was violated.
      The schedule keeps all assumptions of the lock.
    "
  `);
});

test('a failover', () => {
  expect(text(findScenario('S01').schedule)).toMatchInlineSnapshot(`
    "  1 node, quorum 1, ttl 10 000 ms, drift 1 % + 2 ms, persistence none

        t/ms  who     what                                  c1    c2
           0  c1 → *  SET a A NX PX 10000                    ·     ·
           2  c1      n0 granted, 1/1, valid until 9 898   HELD    ·
           3  n0      crashes for good; A not on disk      HELD    ·
          49  c2 → *  SET a B NX PX 10000                  HELD    ·
          50  n0      its replica takes over; A forgotten  HELD    ·
          51  c2      n0 granted, 1/1, valid until 9 947   HELD  HELD   ← both
       9 898  c1      validity ends                          ·   HELD
       9 947  c2      validity ends                          ·     ·
      10 051  n0      B expires                              ·     ·

      ✗ mutual exclusion
        c1 and c2 both held a for 9 847 ms: n0 voted twice, it forgot A in the failover.
      ✗ availability
        Nobody could acquire for 47 ms, from 3 on: n0 was down, too few were up for a
        quorum.
      Assumptions of the lock that the schedule breaks: durable-failover (a replica takes
      over that may lack keys, or beside its master).
    "
  `);
});

test('what becomes of single messages is beside the command', () => {
  const fate = { client: 'c1', operation: 'acquire', direction: 'request' } as const;
  const given = schedule({
    faults: [{ kind: 'crash', node: 'n4', atUs: 0, restartAfterUs: null }],
    fates: [
      { ...fate, node: 'n0', lost: true },
      { ...fate, node: 'n1', direction: 'reply', lost: true },
      { ...fate, node: 'n2', delayUs: 70_000 },
      { ...fate, node: 'n3', duplicateDelayUs: 3_000 },
    ],
    policy: { profile: 'reference', settings: { tries: 1 } },
  });
  expect(rows(given)).toMatchInlineSnapshot(`
    [
      "0  n4      crashes for good",
      "0  c1 → *  SET a A NX PX 10000   (n0 lost; n4 down; n2 late; n1 answer lost)",
      "3  n3      copy of SET a A NX PX 10000 arrives: refused",
      "50  c1 → *  DEL a if A   (n4 down)",
      "50  c1      gives up: too few nodes answer",
      "70  n2      SET a A NX PX 10000 arrives: granted",
    ]
  `);
});

const EVERY_FAULT: readonly Fault[] = [
  { kind: 'clock-step', process: 'n0', atUs: 3_000, byUs: -1_500 },
  { kind: 'clock-drift', process: 'n1', atUs: 4_000, ratePpm: -2_500 },
  { kind: 'partition', atUs: 5_000, from: ['c1'], to: ['n0', 'n1'], oneWay: true, forUs: 10_000 },
  { kind: 'partition', atUs: 6_000, from: ['c1'], to: ['n2'], oneWay: false, forUs: 10_000 },
  { kind: 'crash', node: 'n0', atUs: 7_000, restartAfterUs: 2_000 },
  { kind: 'crash', node: 'n1', atUs: 7_000, restartAfterUs: 2_000 },
  { kind: 'pause', process: 'n2', atUs: 8_000, forUs: 1_000 },
  { kind: 'client-crash', client: 'c1', atUs: 10_000 },
];

test('of disks that are written every second it is told what they kept when the node is back', () => {
  const cluster = { persistence: 'everysec' } as const;
  const faults = [{ kind: 'crash', node: 'n0', atUs: 7_000, power: true, restartAfterUs: 2_000 }] as const;
  const told = rows(schedule({ faults, cluster })).filter((row) => /^\d+ +n0 /.test(row));
  expect(told.map((row) => row.replaceAll(/ +/g, ' '))).toEqual(['7 n0 loses power', '9 n0 restarts; A forgotten']);
});

test('every fault has its words, and the same fault of several nodes is one line', () => {
  const clocks = [{ process: 'n4', offsetUs: 0, ratePpm: 20_000 }];
  expect(rows(schedule({ faults: EVERY_FAULT, cluster: { clocks } }))).toMatchInlineSnapshot(`
    [
      "0      n4      clock 2 % fast",
      "0      c1 → *  SET a A NX PX 10000",
      "2      c1      n0 n1 n2 granted, 3/5, valid until 9 898",
      "3      n0      clock jumps back by 1.5 ms",
      "4      n1      clock runs 0.25 % slow from now on",
      "5      c1      cannot reach n0 n1 until 15",
      "6      c1      cut off from n2 until 16",
      "7      n0 n1   crashes; A not on disk",
      "8      n2      is frozen until 9",
      "9      n0 n1   restarts; A forgotten",
      "10      c1      dies",
      "9 805.883  n4      A expires",
      "10 002      n2 n3   A expires",
    ]
  `);
});

test('nodes that write to disk come back with what they had', () => {
  const faults = [{ kind: 'crash', node: 'n0', atUs: 7_000, restartAfterUs: 2_000 }] as const;
  const given = mitigate(schedule({ faults }), 'persistence=always');
  expect(rows(given).filter((row) => row.includes('n0 '))).toEqual([
    '2  c1      n0 n1 n2 granted, 3/5, valid until 9 898',
    '7  n0      crashes; A on disk',
    '9  n0      restarts with A',
  ]);
});

test('a very long run loses its middle where a limit is given', () => {
  const { schedule: endless } = findScenario('S47');
  const lines = formatTimeline(endless, judge(endless, [], true), { mostRows: 10 }).split('\n');
  expect(lines.length).toBeLessThanOrEqual(20);
  expect(lines[8]).toMatch(/^ {2}… [\d ]+ lines left out \(--format json has everything\)$/);
});

test('a schedule in which nothing happens is told, too', () => {
  expect(text(schedule({ clients: [] }))).toContain('nothing happens');
});
