import { applyPatch, type Operation } from 'rfc6902';
import { describe, expect, test } from 'vitest';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import { ScheduleError } from './input-error.js';
import { parseScenario, parseScenarioText } from './parse.js';
import { parseSchedule, parseScheduleText } from './parse-schedule.js';

/** What the parser says about the example after a change. */
function said(op: Operation['op'], path: string, value?: unknown): string {
  const scenario: unknown = structuredClone(everyField);
  applyPatch(scenario, [{ op, path, value } as Operation]);
  return complaint(() => parseScenario(scenario));
}

function complaint(parse: () => unknown): string {
  try {
    parse();
    return 'accepted';
  } catch (error) {
    expect(error).toBeInstanceOf(ScheduleError);
    return error instanceof ScheduleError ? error.message : '';
  }
}

const replaced = (path: string, ...values: unknown[]): string[] => values.map((value) => said('replace', path, value));

test('reads a scenario with every field, and changes nothing', () => {
  expect(parseScenario(everyField)).toStrictEqual(everyField);
  expect(parseSchedule(everyField.schedule)).toStrictEqual(everyField.schedule);
});

test('a set of deviations is read in one order', () => {
  const { schedule } = everyField;
  const backwards = {
    ...schedule,
    policy: { ...schedule.policy, deviations: schedule.policy.deviations.toReversed() },
  };
  expect(parseSchedule(backwards)).toStrictEqual(schedule);
});

test('puts fields in their order', () => {
  const backwards = Object.fromEntries(Object.entries(everyField.schedule).reverse());
  expect(JSON.stringify(parseSchedule(backwards))).toBe(JSON.stringify(everyField.schedule));
});

describe('says what is wrong, where, and what would be right', () => {
  test('of the whole', () => {
    expect([
      complaint(() => parseSchedule(undefined)),
      complaint(() => parseSchedule(null)),
      complaint(() => parseSchedule([])),
      complaint(() => parseScenario(everyField.schedule)),
      said('replace', '/schema', 'lockstep.scenario/2'),
      said('remove', '/schedule'),
      said('replace', '/schedule/clients', { c1: [] }),
    ]).toMatchInlineSnapshot(`
      [
        "missing; it must be a schedule (an object)",
        "null is not a schedule (an object)",
        "a list is not a schedule (an object)",
        "/schema: "lockstep.schedule/2" is not "lockstep.scenario/1"",
        "/schema: "lockstep.scenario/2" is not "lockstep.scenario/1"",
        "/schedule: missing; it must be a schedule (an object)",
        "/schedule/clients: an object is not a list of clients",
      ]
    `);
  });

  test('of unknown fields', () => {
    expect([
      ...replaced('/schedule/cluster/clocks/0', { process: 'n0', offsetMs: 0, ratePpm: 0 }),
      said('add', '/schedule/cluster/delayMs', 1),
      said('add', '/schedule/colour', 'red'),
      said('add', '/schedule/policy/with', { tries: 3 }),
      said('add', '/schedule/policy/settings/drift', 1),
      said('add', '/schedule/policy/settings/quorum', 3),
      said('add', '/schedule/policy/habits/clok', 'wall'),
      said('add', '/schedule/faults/0/nodes', 'n1'),
      said('add', '/schedule/clients/0/locks/0/a~1b', 1),
    ]).toMatchInlineSnapshot(`
      [
        "/schedule/cluster/clocks/0/offsetMs: not a field of a clock; did you mean "offsetUs"?",
        "/schedule/cluster/delayMs: not a field of a cluster; did you mean "delayUs"?",
        "/schedule/colour: not a field of a schedule; the fields are schema, cluster, policy, clients, faults, fates, resource, untilUs",
        "/schedule/policy/with: not a field of a policy; the fields are profile, settings, deviations, habits",
        "/schedule/policy/settings/drift: not a field of the settings; did you mean "driftPpm"?",
        "/schedule/policy/settings/quorum: not a field of the settings; the fields are votesWanted, nodeTimeoutUs, driftPpm, driftUs, minValidityUs, tries, acquireTimeoutUs, retryDelayUs, retryJitterUs, releaseTries, maxExtensions, autoExtendAtUs, …",
        "/schedule/policy/habits/clok: not a field of the habits; did you mean "clock"?",
        "/schedule/faults/0/nodes: not a field of a crash; did you mean "node"?",
        "/schedule/clients/0/locks/0/a~1b: not a field of a lock; the fields are atUs, resources, ttlMs, holdUs, extensions, writes, jitterPpm",
      ]
    `);
  });

  test('of numbers', () => {
    expect([
      ...replaced('/schedule/cluster/nodes', 0, 32, 2.5, '5'),
      ...replaced('/schedule/clients/0/locks/0/ttlMs', -1, 0, 0.5, 2 ** 53),
      ...replaced('/schedule/untilUs', -1, 2 ** 52 + 1, null),
      ...replaced('/schedule/cluster/resolutionUs', 10),
      ...replaced('/schedule/cluster/clocks/0/ratePpm', 500_001, -500_001),
      ...replaced('/schedule/clients/0/locks/0/jitterPpm/0', 1_000_000, -1),
      ...replaced('/schedule/clients/0/locks/0/holdUs', -1),
      ...replaced('/schedule/faults/0/restartAfterUs', 'never'),
      ...replaced('/schedule/policy/deviations/0', 'quorum', 'quorum:32', 'quorum:x'),
      ...replaced('/schedule/policy/settings/tries', 0),
    ]).toMatchInlineSnapshot(`
      [
        "/schedule/cluster/nodes: 0 is not a number of nodes from 1 to 31",
        "/schedule/cluster/nodes: 32 is not a number of nodes from 1 to 31",
        "/schedule/cluster/nodes: 2.5 is not a number of nodes from 1 to 31",
        "/schedule/cluster/nodes: "5" is not a number of nodes from 1 to 31",
        "/schedule/clients/0/locks/0/ttlMs: -1 is not a whole number of milliseconds from 1 to 2^52",
        "/schedule/clients/0/locks/0/ttlMs: 0 is not a whole number of milliseconds from 1 to 2^52",
        "/schedule/clients/0/locks/0/ttlMs: 0.5 is not a whole number of milliseconds from 1 to 2^52",
        "/schedule/clients/0/locks/0/ttlMs: 9007199254740992 is not a whole number of milliseconds from 1 to 2^52",
        "/schedule/untilUs: -1 is not a whole number of microseconds from 0 to 2^52",
        "/schedule/untilUs: 4503599627370497 is not a whole number of microseconds from 0 to 2^52",
        "/schedule/untilUs: null is not a whole number of microseconds from 0 to 2^52",
        "/schedule/cluster/resolutionUs: 10 is not 1000 or 1",
        "/schedule/cluster/clocks/0/ratePpm: 500001 is not a whole number of parts per million within ±500000",
        "/schedule/cluster/clocks/0/ratePpm: -500001 is not a whole number of parts per million within ±500000",
        "/schedule/clients/0/locks/0/jitterPpm/0: 1000000 is not a whole number of parts per million from 0 to 999999",
        "/schedule/clients/0/locks/0/jitterPpm/0: -1 is not a whole number of parts per million from 0 to 999999",
        "/schedule/clients/0/locks/0/holdUs: -1 is not a whole number of microseconds from 0 to 2^52, or null to never release",
        "/schedule/faults/0/restartAfterUs: "never" is not a whole number of microseconds from 0 to 2^52, or null to never restart",
        "/schedule/policy/deviations/0: quorum: write quorum:<whole number from 1 to 31>",
        "/schedule/policy/deviations/0: quorum:32: write quorum:<whole number from 1 to 31>",
        "/schedule/policy/deviations/0: quorum:x: write quorum:<whole number from 1 to 31>",
        "/schedule/policy/settings/tries: 0 is not a whole number from 1 up, or null to try for ever",
      ]
    `);
  });

  test('of words', () => {
    expect([
      ...replaced('/schedule/cluster/link', 'FIFO', 'tcp', 1),
      ...replaced('/schedule/faults/0/kind', 'chrash', 'fire', 7),
      said('remove', '/schedule/faults/0/kind'),
      ...replaced('/schedule/faults/0', 'crash'),
      ...replaced('/schedule/faults/0/edge', 'during'),
      ...replaced('/schedule/fates/0/operation', 'set'),
      ...replaced('/schedule/fates/1/lost', 'yes'),
      ...replaced('/expect/verdict', 'ok'),
      ...replaced('/expect/violations/0/property', 'mutual exclusion'),
      ...replaced('/expect/claims/0', 'c1 at 4000'),
      ...replaced('/neighbours/0/change/0/op', 'move'),
      ...replaced('/neighbours/0/change/0/path', 'cluster.delayUs'),
      said('remove', '/neighbours/0/change/0/value'),
    ]).toMatchInlineSnapshot(`
      [
        "/schedule/cluster/link: "FIFO" is unknown; did you mean "fifo"?",
        "/schedule/cluster/link: "tcp" is not "fifo" or "reordering"",
        "/schedule/cluster/link: 1 is not "fifo" or "reordering"",
        "/schedule/faults/0/kind: "chrash" is unknown; did you mean "crash"?",
        "/schedule/faults/0/kind: "fire" is not one of crash, failover, reconfigure, data-loss, error-replies, client-crash, pause, suspend, clock-step, clock-drift, partition",
        "/schedule/faults/0/kind: 7 is not one of crash, failover, reconfigure, data-loss, error-replies, client-crash, pause, suspend, clock-step, clock-drift, partition",
        "/schedule/faults/0/kind: missing; it must be one of crash, failover, reconfigure, data-loss, error-replies, client-crash, pause, suspend, clock-step, clock-drift, partition",
        "/schedule/faults/0: "crash" is not a fault (an object)",
        "/schedule/faults/0/edge: "during" is not "before" or "after"",
        "/schedule/fates/0/operation: "set" is not "acquire", "extend", "release", "read-counter", "raise-counter" or "join-counter"",
        "/schedule/fates/1/lost: "yes" is not true or false",
        "/expect/verdict: "ok" is not "violated", "inconclusive", "unavailable", "passed" or "safe"",
        "/expect/violations/0/property: "mutual exclusion" is unknown; did you mean "mutual-exclusion"?",
        "/expect/claims/0: "c1 at 4000" is not a claim such as "c1@4000" (client and microseconds)",
        "/neighbours/0/change/0/op: "move" is not one of replace, add, remove",
        "/neighbours/0/change/0/path: "cluster.delayUs" is not a JSON pointer into the schedule, such as "/cluster/delayUs"",
        "/neighbours/0/change/0/value: missing; it must be the value to put there",
      ]
    `);
  });

  test('of names', () => {
    expect([
      ...replaced('/schedule/clients/1/id', 'c1', 'c01', 'bob'),
      ...replaced('/schedule/faults/0/node', 'n7', 'c1', 'node2'),
      ...replaced('/schedule/faults/3/client', 'c3'),
      ...replaced('/schedule/faults/4/process', 'n5', 'c9'),
      ...replaced('/schedule/faults/9/to/1', 'n9', 'c1', 'n0'),
      ...replaced('/schedule/faults/9/from', []),
      ...replaced('/schedule/faults/7/to', 'n0', 'n9', 'c1'),
      ...replaced('/schedule/faults/8/nodes/1', 'n9'),
      ...replaced('/schedule/clients/0/nodes', [], ['n5'], Array(32).fill('n0')),
      ...replaced('/schedule/cluster/clocks/1/process', 'n0', 'c4'),
      ...replaced('/schedule/policy/profile', 'referense', 'mine', 'toString'),
      ...replaced('/schedule/policy/deviations', 'half-quorum', ['half-quorom'], ['toString'], [3]),
      ...replaced('/schedule/clients/0/timing/deadline', 'relative', 'stamps-us:1000', 'deadline-stamps-us:0'),
      ...replaced('/schedule/clients/0/locks/0/resources', [], ['a', 'b', 'a'], ['']),
      ...replaced('/expect/claims/1', 'c3@4000'),
    ]).toMatchInlineSnapshot(`
      [
        "/schedule/clients/1/id: "c1" names two clients; every id must be unique",
        "/schedule/clients/1/id: "c01" is not the name of a client, such as "c1"",
        "/schedule/clients/1/id: "bob" is not the name of a client, such as "c1"",
        "/schedule/faults/0/node: "n7" is not a node; the cluster has n0 to n4",
        "/schedule/faults/0/node: "c1" is not the name of a node, such as "n0"",
        "/schedule/faults/0/node: "node2" is not the name of a node, such as "n0"",
        "/schedule/faults/3/client: "c3" is not a client; the schedule has c1, c2",
        "/schedule/faults/4/process: "n5" is not a node; the cluster has n0 to n4",
        "/schedule/faults/4/process: "c9" is not a client; the schedule has c1, c2",
        "/schedule/faults/9/to/1: "n9" is not a node; the cluster has n0 to n4",
        "/schedule/faults/9/to/1: "c1" is named twice; a process is on one side of a partition",
        "/schedule/faults/9/to/1: "n0" is named twice; a process is on one side of a partition",
        "/schedule/faults/9/from: empty; it must be a list of at least one process",
        "/schedule/faults/7/to: "n0" is the master itself; leave it out, or name another node",
        "/schedule/faults/7/to: "n9" is not a node; the cluster has n0 to n4",
        "/schedule/faults/7/to: "c1" is not the name of a node, such as "n0"",
        "/schedule/faults/8/nodes/1: "n9" is not a node; the cluster has n0 to n4",
        "/schedule/clients/0/nodes: empty; it must be a list of at least one node",
        "/schedule/clients/0/nodes/0: "n5" is not a node; the cluster has n0 to n4",
        "/schedule/clients/0/nodes: 32 nodes are too many; a client has at most 31",
        "/schedule/cluster/clocks/1/process: "n0" has a clock already, at /schedule/cluster/clocks/0; give it one",
        "/schedule/cluster/clocks/1/process: "c4" is not a client; the schedule has c1, c2",
        "/schedule/policy/profile: "referense" is not a profile; did you mean "reference"?",
        "/schedule/policy/profile: "mine" is not a profile; the profiles are reference, antirez-redlock-rb, redlock-rb, redlock-py, aioredlock, pottery, glasslion-redlock, redis-distlock, lyokato-redlock, redlock-php, php-lock-3, php-redis-mutex, …",
        "/schedule/policy/profile: "toString" is not a profile; the profiles are reference, antirez-redlock-rb, redlock-rb, redlock-py, aioredlock, pottery, glasslion-redlock, redis-distlock, lyokato-redlock, redlock-php, php-lock-3, php-redis-mutex, …",
        "/schedule/policy/deviations: "half-quorum" is not a list of names of deviations",
        "/schedule/policy/deviations/0: "half-quorom" is not a deviation; did you mean "half-quorum"?",
        "/schedule/policy/deviations/0: "toString" is not a deviation; the deviations are half-quorum, float-majority, quorum, extension-votes, error-is-vote, grant-is-error, refusal-extends, settles-with-all, settles-early-on-yes, settles-early-on-no, settles-by-quorum-only, error-aborts, …",
        "/schedule/policy/deviations/0: 3 is not the name of a deviation",
        "/schedule/clients/0/timing/deadline: "relative" is not a deviation of the deadline; they are deadline-stamps-us, deadline-counted-after-us, deadline-whole-ttl",
        "/schedule/clients/0/timing/deadline: "stamps-us" is not a deviation of the deadline; they are deadline-stamps-us, deadline-counted-after-us, deadline-whole-ttl",
        "/schedule/clients/0/timing/deadline: deadline-stamps-us:0: write deadline-stamps-us:<whole number from 1 to 1000000>",
        "/schedule/clients/0/locks/0/resources: empty; it must be a list of at least one resource",
        "/schedule/clients/0/locks/0/resources/2: "a" is named twice; name each resource once",
        "/schedule/clients/0/locks/0/resources/0: "" is not the name of a resource",
        "/expect/claims/1: "c3" is not a client; the schedule has c1, c2",
      ]
    `);
  });

  test('of what does not go together', () => {
    expect([
      ...replaced('/schedule/clients/0/locks/0/writes/0/sendAfterUs', 9),
      ...replaced('/schedule/cluster/replicaLagUs', null),
      ...replaced('/schedule/policy/deviations', ['half-quorum', 'quorum:2'], ['asks-in-turn', 'asks-in-turn']),
      ...replaced('/schedule/policy', { profile: 'reference' }),
      ...replaced('/schedule/fates/2/lost', true),
      ...replaced('/schedule/fates/0/client', 'c3'),
      ...replaced('/schedule/fates/0/node', 'n5'),
      ...replaced('/schedule/fates/2/lock', 2),
      said('add', '/schedule/fates/0', { ...everyField.schedule.fates[0], client: 'c2', lock: 1 }),
      ...replaced('/schedule/clients', []),
      ...replaced('/schedule/clients/0/locks', []),
      ...replaced('/schedule/cluster/distances/0/client', 'c9'),
      ...replaced('/schedule/cluster/distances/0/node', 'n9'),
      ...replaced('/schedule/cluster/distances/1', { client: 'c1', node: 'n0', delayUs: 5 }),
      ...replaced('/schedule/fates/1', { ...everyField.schedule.fates[0], attempt: 0, send: 0 }),
      ...replaced('/expect/verdict', 'safe'),
      ...replaced('/expect/violations/0/untilUs', 3999),
      ...replaced('/expect/unavailable/0/toUs', 3999),
      said('remove', '/flips/0/with'),
      ...replaced('/neighbours/0/change', []),
    ]).toMatchInlineSnapshot(`
      [
        "/schedule/clients/0/locks/0/writes/0/sendAfterUs: 9 is before the check; it must be at least checkAfterUs, 10",
        "/schedule/faults/2/kind: a failover needs replicas; set replicaLagUs of the cluster to their lag",
        "/schedule/policy/deviations: quorum would undo half-quorum: both are about quorum",
        "/schedule/policy/deviations: asks-in-turn would undo asks-in-turn: both are about next",
        "/schedule/resource: "fencing" needs fencing tokens; set fencing to true in the settings of the policy",
        "/schedule/fates/2/delayUs: a lost message has no delay; leave out one of lost and delayUs",
        "/schedule/fates/0/client: "c3" is not a client; the schedule has c1, c2",
        "/schedule/fates/0/node: "n5" is not a node; the cluster has n0 to n4",
        "/schedule/fates/2/lock: 2 is not a lock of c1; it has locks 0 to 1",
        "/schedule/fates/0/lock: 1 is not a lock of c2; it has lock 0 alone",
        "/schedule/cluster/distances/0/client: "c1" is not a client; the schedule has none",
        "/schedule/fates/0/lock: 0 is not a lock of c1; it has none",
        "/schedule/cluster/distances/0/client: "c9" is not a client; the schedule has c1, c2",
        "/schedule/cluster/distances/0/node: "n9" is not a node; the cluster has n0 to n4",
        "/schedule/cluster/distances/1: the same pair as /schedule/cluster/distances/0; give it one distance",
        "/schedule/fates/1: the same message as /schedule/fates/0; a message has one fate",
        "/expect/violations: a run that is safe has no violations; leave them out",
        "/expect/violations/0/untilUs: 3999 is before atUs; it must be at least 4000",
        "/expect/unavailable/0/toUs: 3999 is before fromUs; it must be at least 4000",
        "/flips/0: a variant that varies nothing; give it a mitigation in with, or a change",
        "/neighbours/0: a variant that varies nothing; give it a mitigation in with, or a change",
      ]
    `);
  });

  test('of one node and one lock, in the singular', () => {
    const schedule = {
      ...everyField.schedule,
      cluster: { ...everyField.schedule.cluster, nodes: 1, clocks: [], distances: [] },
      clients: everyField.schedule.clients.map(({ id, locks }) => ({ id, locks })),
      faults: [],
      fates: [{ client: 'c2', lock: 1, operation: 'acquire', node: 'n0', direction: 'request' }],
    };
    expect(complaint(() => parseSchedule(schedule))).toMatchInlineSnapshot(
      `"/fates/0/lock: 1 is not a lock of c2; it has lock 0 alone"`,
    );
    const fate = { ...schedule.fates[0], lock: 0, node: 'n1' };
    expect(complaint(() => parseSchedule({ ...schedule, fates: [fate] }))).toMatchInlineSnapshot(
      `"/fates/0/node: "n1" is not a node; the cluster has n0 alone"`,
    );
  });

  test('with the path as data', () => {
    const scenario = { ...everyField, expect: { verdict: 'violated', hash: '' } };
    expect(() => parseScenario(scenario)).toThrow(
      expect.objectContaining({ name: 'ScheduleError', path: '/expect/hash' }),
    );
  });
});

describe('the text of a file', () => {
  const text = JSON.stringify(everyField, undefined, 2);

  test('is read, with a byte order mark too', () => {
    expect(parseScenarioText(text, 'x.json')).toStrictEqual(everyField);
    expect(parseScenarioText(`\ufeff${text}`, 'x.json')).toStrictEqual(everyField);
    expect(parseScheduleText(JSON.stringify(everyField.schedule), 'x.json')).toStrictEqual(everyField.schedule);
  });

  test('is named in what is said about it', () => {
    const files = [
      '',
      text.slice(0, 700),
      text.slice(0, 716),
      text.replace('"nodes":', 'nodes:'),
      `${text}}`,
      text.replace('"n2"', '"n7"'),
      '5',
    ];
    expect(files.map((file) => complaint(() => parseScenarioText(file, 'S03.json')))).toMatchInlineSnapshot(`
      [
        "S03.json: the file is empty; it must be one JSON object",
        "S03.json: the file ends too early, at line 28, column 14; it must be one complete JSON object",
        "S03.json: the file ends too early, at line 28, column 30; it must be one complete JSON object",
        "S03.json: not JSON from line 10, column 7 on; it must be one JSON object",
        "S03.json: not JSON from line 362, column 2 on; it must be one JSON object",
        "S03.json: /schedule/cluster/distances/1/node: "n7" is not a node; the cluster has n0 to n4",
        "S03.json: 5 is not a scenario (an object)",
      ]
    `);
  });
});
