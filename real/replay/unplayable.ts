import type { Settings } from '../../core/index.js';
import { deviates, type Habits, type Policy, type PolicyChoice, policyOf } from '../../deviations/index.js';
import type { ClientPlan, Cluster, Fate, Fault, FsyncPlan, LockPlan, Schedule } from '../../scenarios/index.js';

import { findFaketime } from '../provisioner/index.js';

/** What is known beside one value. */
interface Context {
  readonly schedule: Schedule;
  readonly policy: Policy;
  /** Whether nodes can have clocks of their own. */
  readonly clocks: boolean;
}

/** Why a value cannot be played, in half a sentence; `null` if it can. `owner` is what it is a field of. */
type Judge<Owner, Value> = (value: Value, context: Context, owner: Owner) => string | null;

/**
 * How each field is played. `played`: as it is written, whatever its value. `moot`: real nodes play nothing on which its
 * values differ. A field that is not in these lists does not compile.
 */
type Fields<Owner> = {
  readonly [Field in keyof Owner]-?: 'played' | 'moot' | Judge<Owner, Exclude<Owner[Field], undefined>>;
};

type FaultFields = { readonly [Kind in Fault['kind']]: Fields<Extract<Fault, { readonly kind: Kind }>> };

/** Cannot be played unless it is this. */
function only(playable: unknown, reason: string): (value: unknown) => string | null {
  return (value) => (value === playable ? null : reason);
}

const never = (reason: string) => (): string => reason;

const NO_COUNTERS = 'its clients play without fencing counters';

/** Settings of a policy. */
const SETTING_FIELDS: Fields<Settings> = {
  votesWanted: 'played',
  nodeTimeoutUs: 'played',
  driftPpm: 'played',
  driftUs: 'played',
  minValidityUs: 'played',
  tries: 'played',
  acquireTimeoutUs: 'played',
  retryDelayUs: 'played',
  retryJitterUs: 'played',
  releaseTries: 'played',
  maxExtensions: 'played',
  autoExtendAtUs: 'played',
  autoExtendAtPpm: 'played',
  autoExtendSpacingUs: 'played',
  lockDelayMs: 'played',
  fencing: only(false, NO_COUNTERS),
};

/** Habits of a policy. */
const HABIT_FIELDS: Fields<Habits> = {
  nodesFrom: only('configured', 'each command has a connection of its own, and no node is ever without one'),
  clock: 'played',
  tokenFrom: 'played',
  tokenPerProcess: 'played',
  beliefEnds: 'played',
};

/** All deviations are played, but for those of fencing tokens that are made of votes. */
function obstacleInDeviations({ policy }: Context): string | null {
  const name = policy.deviations.find((it) => it === 'grants-count' || it.startsWith('fence-'));
  return name === undefined ? null : `policy.deviations: ${name}: ${NO_COUNTERS}`;
}

const NO_REPLICAS = 'own nodes have no replicas to fail over to';

const CLUSTER_FIELDS: Fields<Cluster> = {
  nodes: 'played',
  delayUs: 'played',
  distances: 'played',
  link: 'played',
  expiry: only('after', 'Redis removes a key after its time, never at it'),
  resolutionUs: only(1000, 'Redis reads its clock in whole milliseconds'),
  persistence: (value) => (value === 'rdb' ? 'when redis-server dumps its data is not ours to say' : null),
  fsync: 'played',
  dumps: 'moot',
  replicaLagUs: only(null, NO_REPLICAS),
  answers: (answers, { schedule: { cluster } }) => {
    if (answers === 'replicated') return NO_REPLICAS;
    if (cluster.persistence === 'always')
      return answers === 'durable' ? null : 'redis-server answers when a write is on disk, not before';
    return answers === 'executed' ? null : 'redis-server waits for its disk only where it writes always';
  },
  expiryAtLoad: only('absolute', 'redis-server writes down the instant at which a key is gone'),
  scripts: only('by-text', 'its clients send scripts by their text'),
  clocks: (clocks, context) =>
    clocks.map(({ process }) => clockOf(process, context)).find((reason) => reason !== null) ?? null,
};

function isClient(process: string, { clients }: Schedule): boolean {
  return clients.some(({ id }) => id === process);
}

/** Why a process cannot have another clock. */
function clockOf(process: string, { schedule, clocks }: Context): string | null {
  if (isClient(process, schedule)) return 'the clocks of clients run at the rate of the machine’s';
  return clocks ? null : 'the clock of a node can be set only where libfaketime is installed';
}

const CLIENT_FIELDS: Fields<ClientPlan> = {
  id: 'played',
  nodes: 'played',
  keyPrefix: 'played',
  timing: 'played',
  // Looked through one by one.
  locks: 'played',
};

const LOCK_FIELDS: Fields<LockPlan> = {
  atUs: 'played',
  resources: 'played',
  ttlMs: 'played',
  holdUs: 'played',
  extensions: 'played',
  writes: 'played',
  jitterPpm: 'played',
};

// Which of two things of one instant comes first is looked at with noise, before a schedule is played.
const AT = { kind: 'played', atUs: 'played', edge: 'moot' } as const;

/** Extensions that set keys are refused with the acquisitions, and those that do not with nothing else. */
const setsKeys = (policy: Policy): boolean => deviates(policy, 'extends-any', 'extends-missing', 'extension-heals');

const FAULT_FIELDS: FaultFields = {
  crash: {
    ...AT,
    atUs: (atUs, { schedule: { cluster } }, { power }) =>
      cluster.persistence === 'everysec' && power !== true && isInFsync(cluster, atUs)
        ? 'when redis-server writes to its disk is not ours to say'
        : null,
    node: 'played',
    power: 'played',
    // A server that is killed has handed over to the kernel what a shutdown would have written.
    clean: 'moot',
    ageUs: only(0, 'no disk of a real node is set back'),
    restartAfterUs: 'played',
    restartBy: only('true-time', 'a node is started again by the clock of the machine'),
  },
  failover: { ...AT, kind: never(NO_REPLICAS), node: 'moot', to: 'moot', lagUs: 'moot' },
  reconfigure: { ...AT, client: 'played', nodes: 'played' },
  'data-loss': { ...AT, node: 'played', resource: 'played' },
  'error-replies': {
    ...AT,
    node: 'played',
    operations: (operations, { policy }) =>
      setsKeys(policy) && operations.includes('acquire') !== operations.includes('extend')
        ? 'a node that does not let keys be set refuses acquisitions and extensions alike'
        : null,
    forUs: 'played',
    error: 'moot',
  },
  'client-crash': {
    ...AT,
    client: 'played',
    restartAfterUs: never('its clients, once dead, do not start again'),
  },
  pause: { ...AT, process: 'played', forUs: 'played', first: 'played' },
  suspend: {
    ...AT,
    process: (process, { schedule }) =>
      isClient(process, schedule) ? null : 'a server cannot suspend the machine that it runs on',
    forUs: 'played',
    stops: 'played',
  },
  'clock-step': {
    ...AT,
    process: (process, context) => (isClient(process, context.schedule) ? null : clockOf(process, context)),
    byUs: (byUs, { schedule }, { process }) =>
      byUs > 0 && isClient(process, schedule) ? 'timers that wait do not hear that their clock is set ahead' : null,
  },
  'clock-drift': { ...AT, process: clockOf, ratePpm: 'played' },
  partition: {
    ...AT,
    from: 'played',
    to: 'played',
    oneWay: 'played',
    forUs: 'played',
    holds: only(false, 'a way that is cut loses what is sent over it'),
  },
};

/** From one fsync to the next: none starts while one runs. */
function periodOf({ everyUs, takesUs }: FsyncPlan): number {
  return Math.max(everyUs, takesUs);
}

function isInFsync({ fsync }: Cluster, atUs: number): boolean {
  return fsync !== undefined && atUs >= fsync.firstUs && (atUs - fsync.firstUs) % periodOf(fsync) < fsync.takesUs;
}

const FATE_FIELDS: Fields<Fate> = {
  client: 'played',
  lock: 'played',
  attempt: 'played',
  operation: 'played',
  round: 'played',
  node: 'played',
  direction: 'played',
  send: (send, _, { direction }) =>
    direction === 'reply' && send % 2 === 1 ? 'the answer to a copy of a command is nobody’s' : null,
  delayUs: 'played',
  lost: 'played',
  duplicateDelayUs: (copyUs, { schedule }, fate) => {
    if (fate.direction === 'reply') return 'a connection carries each answer once';
    const answer = schedule.fates.find((it) => it.direction === 'reply' && it.lost === true && namesAnswerTo(fate, it));
    if (answer !== undefined || fate.lost === true) return 'the answer to a copy of a command is nobody’s';
    return copyUs < (fate.delayUs ?? schedule.cluster.delayUs) ? 'a copy of a command comes after it' : null;
  },
  resendAfterUs: 'played',
};

function namesAnswerTo(request: Fate, { send = 0, ...reply }: Fate): boolean {
  const same = (['lock', 'attempt', 'round'] as const).every((field) => (request[field] ?? 0) === (reply[field] ?? 0));
  const { client, operation, node } = request;
  return (
    same &&
    reply.client === client &&
    reply.operation === operation &&
    reply.node === node &&
    send === 2 * (request.send ?? 0)
  );
}

const SCHEDULE_FIELDS: Fields<Schedule> = {
  schema: 'played',
  cluster: 'played',
  policy: 'played',
  clients: 'played',
  faults: 'played',
  fates: 'played',
  resource: only('none', 'the resource that it writes to looks at nothing'),
  untilUs: 'played',
};

/** A policy is looked at as a whole: what its profile chooses counts as what is written beside it. */
const CHOICE_FIELDS: Fields<PolicyChoice> = {
  profile: 'played',
  settings: 'played',
  deviations: 'played',
  habits: 'played',
};

/** The lists by what they are about, for tests that go through all fields. */
export const PLAYED: {
  readonly schedule: Fields<Schedule>;
  readonly cluster: Fields<Cluster>;
  readonly choice: Fields<PolicyChoice>;
  readonly settings: Fields<Settings>;
  readonly habits: Fields<Habits>;
  readonly client: Fields<ClientPlan>;
  readonly lock: Fields<LockPlan>;
  readonly fault: FaultFields;
  readonly fate: Fields<Fate>;
} = {
  schedule: SCHEDULE_FIELDS,
  cluster: CLUSTER_FIELDS,
  choice: CHOICE_FIELDS,
  settings: SETTING_FIELDS,
  habits: HABIT_FIELDS,
  client: CLIENT_FIELDS,
  lock: LOCK_FIELDS,
  fault: FAULT_FIELDS,
  fate: FATE_FIELDS,
};

/** The first field that cannot be played, with the reason. */
function obstacleIn<Owner extends object>(
  path: string,
  owner: Owner,
  fields: Fields<Owner>,
  context: Context,
): string | null {
  for (const field of Object.keys(fields) as (keyof Owner & string)[]) {
    const judge = fields[field];
    const value = owner[field];
    if (typeof judge === 'string' || value === undefined) continue;
    const reason = judge(value as Exclude<Owner[typeof field], undefined>, context, owner);
    if (reason !== null) return `${path}${field}: ${reason}`;
  }
  return null;
}

/**
 * Why a schedule cannot be played on real nodes at all: the name of the field, and the reason; `null` if it can.
 *
 * @param clocks - Whether nodes can have clocks of their own.
 */
export function notReplayableReason(schedule: Schedule, clocks: boolean = findFaketime() !== undefined): string | null {
  const { cluster, clients, faults, fates } = schedule;
  const policy = policyOf(schedule.policy);
  const context: Context = { schedule, policy, clocks };
  const obstacles = [
    obstacleIn('', schedule, SCHEDULE_FIELDS, context),
    obstacleIn('cluster.', cluster, CLUSTER_FIELDS, context),
    obstacleIn('policy.settings.', policy.settings, SETTING_FIELDS, context),
    obstacleIn('policy.habits.', policy.habits, HABIT_FIELDS, context),
    obstacleInDeviations(context),
    ...clients.map((client, i) => obstacleIn(`clients[${i}].`, client, CLIENT_FIELDS, context)),
    ...faults.map((fault, i) =>
      obstacleIn(`faults[${i}].`, fault, FAULT_FIELDS[fault.kind] as Fields<typeof fault>, context),
    ),
    ...fates.map((fate, i) => obstacleIn(`fates[${i}].`, fate, FATE_FIELDS, context)),
  ];
  return obstacles.find((obstacle) => obstacle !== null) ?? null;
}
