import { LONGEST_US, MOST_NODES } from '../core/index.js';
import { exactly } from './exactly.js';
import {
  flag,
  formed,
  from,
  list,
  MICROS,
  maybe,
  oneOf,
  orNull,
  ppm,
  record,
  SHIFT,
  someOf,
  TTL,
  text,
  whole,
  wrong,
  wrongTag,
} from './grammar-parts.js';
import { policyChoice, timing } from './policy-grammar.js';
import type {
  ClientPlan,
  ClockPlan,
  Cluster,
  Distance,
  ExtensionPlan,
  Fate,
  Fault,
  FsyncPlan,
  LockPlan,
  Schedule,
  WritePlan,
} from './schedule.js';
import * as z from './zod.js';

/*
 * The form of a schedule. What one field demands of another (names that exist, addresses named once) is in checks.ts.
 */

/** Names that the published JSON Schema uses. */
export const definitions: z.core.$ZodRegistry<{ id: string }> = z.registry<{ id: string }>();

const PLACE = { low: 0, high: 999_999, right: 'a whole number of parts per million from 0 to 999999' };

const operation = () => oneOf('acquire', 'extend', 'release', 'read-counter', 'raise-counter', 'join-counter');
const nodeNamed = () => formed(/^n(0|[1-9]\d*)$/, 'the name of a node, such as "n0"');
const clientNamed = () => formed(/^c[1-9]\d*$/, 'the name of a client, such as "c1"');
const processNamed = () => formed(/^(n(0|[1-9]\d*)|c[1-9]\d*)$/, 'the name of a process, such as "c1" or "n0"');

const clock: z.ZodType<ClockPlan> = exactly<ClockPlan>()(
  record('a clock', { process: processNamed(), offsetUs: whole(SHIFT), ratePpm: whole(ppm(500_000)) }),
).register(definitions, { id: 'ClockPlan' });

const distance: z.ZodType<Distance> = exactly<Distance>()(
  record('a distance', { client: clientNamed(), node: nodeNamed(), delayUs: whole(MICROS) }),
).register(definitions, { id: 'Distance' });

const fsync: z.ZodType<FsyncPlan> = exactly<FsyncPlan>()(
  record('an fsync plan', {
    firstUs: whole(MICROS),
    everyUs: whole({ low: 1, high: LONGEST_US, right: 'a whole number of microseconds from 1' }),
    takesUs: whole(MICROS),
  }),
).register(definitions, { id: 'FsyncPlan' });

const cluster: z.ZodType<Cluster> = exactly<Cluster>()(
  record('a cluster', {
    nodes: whole({ low: 1, high: MOST_NODES, right: `a number of nodes from 1 to ${MOST_NODES}` }),
    delayUs: whole(MICROS),
    distances: list(distance, 'a list of distances'),
    link: oneOf('fifo', 'reordering'),
    expiry: oneOf('after', 'at'),
    resolutionUs: z.literal([1000, 1], { error: wrong('1000 or 1') }),
    persistence: oneOf('none', 'rdb', 'everysec', 'always'),
    fsync: maybe(fsync),
    dumps: maybe(fsync),
    replicaLagUs: orNull(MICROS, 'for no replicas'),
    answers: maybe(oneOf('executed', 'replicated', 'durable')),
    expiryAtLoad: maybe(oneOf('absolute', 'restarts')),
    scripts: maybe(oneOf('by-text', 'by-hash')),
    clocks: list(clock, 'a list of clocks'),
  }),
).register(definitions, { id: 'Cluster' });

for (const [id, part] of Object.entries({ PolicyChoice: policyChoice, ClientTiming: timing }))
  part.register(definitions, { id });

const extension: z.ZodType<ExtensionPlan> = exactly<ExtensionPlan>()(
  record('an extension', { afterUs: whole(MICROS), ttlMs: whole(TTL) }),
).register(definitions, { id: 'ExtensionPlan' });

const write: z.ZodType<WritePlan> = exactly<WritePlan>()(
  record('a write', {
    checkAfterUs: whole(MICROS),
    guardUs: orNull(MICROS, 'to not check'),
    sendAfterUs: whole(MICROS),
    delayUs: whole(MICROS),
  }),
).register(definitions, { id: 'WritePlan' });

const lock: z.ZodType<LockPlan> = exactly<LockPlan>()(
  record('a lock', {
    atUs: whole(MICROS),
    resources: someOf(text('the name of a resource'), 'a list of at least one resource'),
    ttlMs: whole(TTL),
    holdUs: orNull(MICROS, 'to never release'),
    extensions: list(extension, 'a list of extensions'),
    writes: list(write, 'a list of writes'),
    jitterPpm: list(whole(PLACE), 'a list of numbers'),
  }),
).register(definitions, { id: 'LockPlan' });

const client: z.ZodType<ClientPlan> = exactly<ClientPlan>()(
  record('a client', {
    id: clientNamed(),
    nodes: maybe(someOf(nodeNamed(), 'a list of at least one node')),
    keyPrefix: maybe(text('a prefix of keys')),
    timing: maybe(timing),
    locks: list(lock, 'a list of locks'),
  }),
).register(definitions, { id: 'ClientPlan' });

const struck = { atUs: whole(MICROS), edge: maybe(oneOf('before', 'after')) };
const kind = <const K extends string>(name: K) => z.literal(name);
const side = () => someOf(processNamed(), 'a list of at least one process');

const faults = [
  record('a crash', {
    kind: kind('crash'),
    ...struck,
    node: nodeNamed(),
    power: maybe(flag()),
    clean: maybe(flag()),
    ageUs: maybe(whole(MICROS)),
    restartAfterUs: orNull(MICROS, 'to never restart'),
    restartBy: maybe(oneOf('true-time', 'node-clock')),
  }),
  record('a failover', {
    kind: kind('failover'),
    ...struck,
    node: nodeNamed(),
    to: maybe(nodeNamed()),
    lagUs: maybe(whole(MICROS)),
  }),
  record('a change of nodes', {
    kind: kind('reconfigure'),
    ...struck,
    client: clientNamed(),
    nodes: someOf(nodeNamed(), 'a list of at least one node'),
  }),
  record('a loss of keys', {
    kind: kind('data-loss'),
    ...struck,
    node: nodeNamed(),
    resource: maybe(text('the name of a resource')),
  }),
  record('a refusal', {
    kind: kind('error-replies'),
    ...struck,
    node: nodeNamed(),
    operations: someOf(operation(), 'a list of at least one operation'),
    forUs: whole(MICROS),
    error: maybe(
      oneOf(
        'OOM',
        'NOPERM',
        'MISCONF',
        'NOREPLICAS',
        'BUSY',
        'LOADING',
        'READONLY',
        'MASTERDOWN',
        'MOVED',
        'ASK',
        'CROSSSLOT',
      ),
    ),
  }),
  record('a client crash', {
    kind: kind('client-crash'),
    ...struck,
    client: clientNamed(),
    restartAfterUs: maybe(whole(MICROS)),
  }),
  record('a pause', {
    kind: kind('pause'),
    ...struck,
    process: processNamed(),
    forUs: whole(MICROS),
    first: maybe(oneOf('deliveries', 'timers')),
  }),
  record('a suspend', {
    kind: kind('suspend'),
    ...struck,
    process: processNamed(),
    forUs: whole(MICROS),
    stops: maybe(oneOf('monotonic', 'all')),
  }),
  record('a clock step', { kind: kind('clock-step'), ...struck, process: processNamed(), byUs: whole(SHIFT) }),
  record('a change of clock rate', {
    kind: kind('clock-drift'),
    ...struck,
    process: processNamed(),
    ratePpm: whole(ppm(500_000)),
  }),
  record('a partition', {
    kind: kind('partition'),
    ...struck,
    from: side(),
    to: side(),
    oneWay: flag(),
    forUs: whole(MICROS),
    holds: maybe(flag()),
  }),
] as const;

/** The kinds of fault, as `kind` names them. */
export const FAULT_KINDS: readonly Fault['kind'][] = faults.flatMap(({ shape }) => shape.kind.def.values);

const fault: z.ZodType<Fault> = exactly<Fault>()(
  z.discriminatedUnion('kind', [...faults], { error: wrongTag('a fault', 'kind', FAULT_KINDS) }),
).register(definitions, { id: 'Fault' });

const number = () => maybe(whole(from(0)));

const fate: z.ZodType<Fate> = exactly<Fate>()(
  record('a fate', {
    client: clientNamed(),
    lock: number(),
    attempt: number(),
    operation: operation(),
    round: number(),
    node: nodeNamed(),
    direction: oneOf('request', 'reply'),
    send: number(),
    delayUs: maybe(whole(MICROS)),
    lost: maybe(flag()),
    duplicateDelayUs: maybe(whole(MICROS)),
    resendAfterUs: maybe(whole(MICROS)),
  }),
).register(definitions, { id: 'Fate' });

/** The form of a schedule. */
export const scheduleGrammar: z.ZodType<Schedule> = exactly<Schedule>()(
  record('a schedule', {
    schema: oneOf('lockstep.schedule/2'),
    cluster,
    policy: policyChoice,
    clients: list(client, 'a list of clients'),
    faults: list(fault, 'a list of faults'),
    fates: list(fate, 'a list of fates'),
    resource: maybe(oneOf('none', 'fencing', 'cas', 'fencing-strict')),
    untilUs: whole(MICROS),
  }),
).register(definitions, { id: 'Schedule' });
