import { MOST_NODES } from '../core/index.js';
import {
  DEVIATIONS,
  hasFencingTokens,
  type Policy,
  PROFILES,
  parseDeviation,
  policyOf,
  rulesOf,
} from '../deviations/index.js';
import { addressText } from './address.js';

import { pointer, ScheduleError, show } from './input-error.js';
import { meant } from './nearest.js';
import type { Expectation, Scenario, Variant } from './scenario.js';
import type { Cluster, Failover, Fault, LockPlan, ProcessName, Schedule } from './schedule.js';

/** Checks what one part of a schedule demands of another; `base` is where the schedule is. */
export function checkSchedule(schedule: Schedule, base = ''): void {
  const names = namesOf(schedule);
  checkClients(schedule, names, pointer(base, 'clients'));
  checkDistances(schedule.cluster, names, pointer(base, 'cluster', 'distances'));
  checkClocks(schedule.cluster, names, pointer(base, 'cluster', 'clocks'));
  checkAnswers(schedule.cluster, pointer(base, 'cluster', 'answers'));
  checkProfile(schedule.policy.profile, pointer(base, 'policy', 'profile'));
  checkDeviations(schedule.policy.deviations ?? [], pointer(base, 'policy', 'deviations'));
  checkTimings(schedule, pointer(base, 'clients'));
  checkResource(schedule, pointer(base, 'resource'));
  for (const [index, fault] of schedule.faults.entries()) {
    checkFault(fault, schedule.cluster, names, pointer(base, 'faults', index));
  }
  checkFates(schedule, names, pointer(base, 'fates'));
}

/** Checks what one part of a scenario demands of another. */
export function checkScenario(scenario: Scenario): void {
  checkSchedule(scenario.schedule, '/schedule');
  checkExpectation(scenario.expect, '/expect');
  const clients = new Set(scenario.schedule.clients.map(({ id }) => id));
  for (const [index, claim] of (scenario.expect.claims ?? []).entries()) {
    const id = claim.slice(0, claim.indexOf('@'));
    if (!clients.has(id)) fail(pointer('/expect/claims', index), notAClient(id, clients));
  }
  for (const list of ['flips', 'neighbours'] as const) {
    for (const [index, variant] of scenario[list].entries()) checkVariant(variant, pointer('', list, index));
  }
}

/** The profile called `name`, where there is one. */
export function profileOf(name: string): Policy | undefined {
  return Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
}

/** Why `name` is not a profile. */
export function notAProfile(name: string): string {
  return `${show(name)} is not a profile; ${meant(name, Object.keys(PROFILES), 'the profiles are')}`;
}

interface Names {
  readonly nodes: number;
  readonly clients: ReadonlySet<ProcessName>;
}

function fail(path: string, problem: string): never {
  throw new ScheduleError(path, problem);
}

function namesOf(schedule: Schedule): Names {
  return { nodes: schedule.cluster.nodes, clients: new Set(schedule.clients.map(({ id }) => id)) };
}

function isNode(name: ProcessName, names: Names): boolean {
  return name.startsWith('n') && Number(name.slice(1)) < names.nodes;
}

function theNodes({ nodes }: Names): string {
  return nodes === 1 ? 'n0 alone' : `n0 to n${nodes - 1}`;
}

function notAClient(name: string, clients: ReadonlySet<ProcessName>): string {
  return `${show(name)} is not a client; the schedule has ${clients.size === 0 ? 'none' : [...clients].join(', ')}`;
}

function checkNode(name: ProcessName, names: Names, path: string): void {
  if (!isNode(name, names)) fail(path, `${show(name)} is not a node; the cluster has ${theNodes(names)}`);
}

function checkClient(name: ProcessName, names: Names, path: string): void {
  if (!names.clients.has(name)) fail(path, notAClient(name, names.clients));
}

function checkProcess(name: ProcessName, names: Names, path: string): void {
  if (name.startsWith('n')) checkNode(name, names, path);
  else checkClient(name, names, path);
}

function checkDistances(cluster: Cluster, names: Names, base: string): void {
  const seen = new Map<string, number>();
  for (const [index, { client, node }] of cluster.distances.entries()) {
    checkClient(client, names, pointer(base, index, 'client'));
    checkNode(node, names, pointer(base, index, 'node'));
    const first = seen.get(`${client} ${node}`);
    if (first !== undefined)
      fail(pointer(base, index), `the same pair as ${pointer(base, first)}; give it one distance`);
    seen.set(`${client} ${node}`, index);
  }
}

function checkClocks(cluster: Cluster, names: Names, base: string): void {
  const seen = new Map<ProcessName, number>();
  for (const [index, { process }] of cluster.clocks.entries()) {
    const path = pointer(base, index, 'process');
    checkProcess(process, names, path);
    const first = seen.get(process);
    if (first !== undefined)
      fail(path, `${show(process)} has a clock already, at ${pointer(base, first)}; give it one`);
    seen.set(process, index);
  }
}

function checkProfile(name: string, path: string): void {
  if (profileOf(name) === undefined) fail(path, notAProfile(name));
}

function checkDeviations(references: readonly string[], path: string): void {
  for (const [index, reference] of references.entries()) {
    const [name = ''] = reference.split(':');
    const names = Object.keys(DEVIATIONS);
    if (!names.includes(name))
      fail(pointer(path, index), `${show(name)} is not a deviation; ${meant(name, names, 'the deviations are')}`);
    orFail(pointer(path, index), () => parseDeviation(reference));
  }
  orFail(path, () => rulesOf(references));
}

/** A `RangeError` is what is wrong there. */
function orFail(path: string, what: () => unknown): void {
  try {
    what();
  } catch (error) {
    throw error instanceof RangeError ? new ScheduleError(path, error.message) : error;
  }
}

function checkTimings({ clients }: Schedule, base: string): void {
  const names = Object.keys(DEVIATIONS).filter((name) => DEVIATIONS[name]?.rule === 'deadline');
  for (const [index, { timing }] of clients.entries()) {
    if (typeof timing?.deadline !== 'string') continue;
    const { deadline } = timing;
    const path = pointer(base, index, 'timing', 'deadline');
    const [name = ''] = deadline.split(':');
    if (!names.includes(name))
      fail(path, `${show(name)} is not a deviation of the deadline; ${meant(name, names, 'they are')}`);
    orFail(path, () => parseDeviation(deadline));
  }
}

function checkResource({ resource = 'none', policy }: Schedule, path: string): void {
  if (resource.startsWith('fencing') && !hasFencingTokens(policyOf(policy))) {
    fail(path, `${show(resource)} needs fencing tokens; set fencing to true in the settings of the policy`);
  }
}

function checkClients(schedule: Schedule, names: Names, base: string): void {
  const seen = new Set<ProcessName>();
  for (const [index, { id, nodes = [], locks }] of schedule.clients.entries()) {
    if (seen.has(id)) fail(pointer(base, index, 'id'), `${show(id)} names two clients; every id must be unique`);
    seen.add(id);
    checkList(nodes, names, pointer(base, index, 'nodes'));
    for (const [number, lock] of locks.entries()) checkLock(lock, pointer(base, index, 'locks', number));
  }
}

function checkLock(lock: LockPlan, base: string): void {
  for (const [index, resource] of lock.resources.entries()) {
    if (lock.resources.indexOf(resource) < index) {
      fail(pointer(base, 'resources', index), `${show(resource)} is named twice; name each resource once`);
    }
  }
  for (const [index, write] of lock.writes.entries()) {
    if (write.sendAfterUs < write.checkAfterUs) {
      const problem = `${write.sendAfterUs} is before the check; it must be at least checkAfterUs, ${write.checkAfterUs}`;
      fail(pointer(base, 'writes', index, 'sendAfterUs'), problem);
    }
  }
}

function checkFault(fault: Fault, cluster: Cluster, names: Names, base: string): void {
  if (fault.kind === 'partition') {
    checkSides(fault.from, fault.to, names, base);
  } else if ('client' in fault) {
    checkClient(fault.client, names, pointer(base, 'client'));
    if (fault.kind === 'reconfigure') checkList(fault.nodes, names, pointer(base, 'nodes'));
  } else if ('node' in fault) {
    checkNode(fault.node, names, pointer(base, 'node'));
    if (fault.kind === 'crash' && fault.power === true && fault.clean === true) {
      fail(pointer(base, 'clean'), 'the power does not go in order; leave out one of power and clean');
    }
    if (fault.kind === 'failover') checkFailover(fault, cluster, names, base);
  } else {
    checkProcess(fault.process, names, pointer(base, 'process'));
  }
}

/** What a node waits for before it answers has to be there. */
function checkAnswers({ answers, replicaLagUs }: Cluster, base: string): void {
  if (answers === 'replicated' && replicaLagUs === null) {
    fail(base, 'there are no replicas to wait for; set replicaLagUs of the cluster to their lag');
  }
}

function checkFailover({ node, to }: Failover, { replicaLagUs }: Cluster, names: Names, base: string): void {
  if (replicaLagUs === null) {
    fail(pointer(base, 'kind'), 'a failover needs replicas; set replicaLagUs of the cluster to their lag');
  }
  if (to === undefined) return;
  checkNode(to, names, pointer(base, 'to'));
  if (to === node) fail(pointer(base, 'to'), `${show(to)} is the master itself; leave it out, or name another node`);
}

/** The nodes of one client. One may be named twice: that it should not is for the simulation to show. */
function checkList(nodes: readonly ProcessName[], names: Names, base: string): void {
  for (const [index, node] of nodes.entries()) checkNode(node, names, pointer(base, index));
  if (nodes.length > MOST_NODES) fail(base, `${nodes.length} nodes are too many; a client has at most ${MOST_NODES}`);
}

function checkSides(from: readonly ProcessName[], to: readonly ProcessName[], names: Names, base: string): void {
  const seen = new Set<ProcessName>();
  for (const [side, processes] of Object.entries({ from, to })) {
    for (const [index, process] of processes.entries()) {
      const path = pointer(base, side, index);
      checkProcess(process, names, path);
      if (seen.has(process)) fail(path, `${show(process)} is named twice; a process is on one side of a partition`);
      seen.add(process);
    }
  }
}

function checkFates(schedule: Schedule, names: Names, base: string): void {
  const locks = new Map(schedule.clients.map(({ id, locks }) => [id, locks.length]));
  const seen = new Map<string, number>();
  for (const [index, fate] of schedule.fates.entries()) {
    const at = pointer(base, index);
    checkClient(fate.client, names, pointer(at, 'client'));
    checkNode(fate.node, names, pointer(at, 'node'));
    const planned = locks.get(fate.client) ?? 0;
    if ((fate.lock ?? 0) >= planned) {
      const known = planned === 0 ? 'none' : planned === 1 ? 'lock 0 alone' : `locks 0 to ${planned - 1}`;
      fail(pointer(at, 'lock'), `${fate.lock ?? 0} is not a lock of ${fate.client}; it has ${known}`);
    }
    if (fate.lost === true && fate.delayUs !== undefined) {
      fail(pointer(at, 'delayUs'), 'a lost message has no delay; leave out one of lost and delayUs');
    }
    if (fate.resendAfterUs !== undefined && fate.direction === 'reply') {
      fail(pointer(at, 'resendAfterUs'), 'only a request is sent again; give it to the request, or leave it out');
    }
    const address = addressText(fate);
    const first = seen.get(address);
    if (first !== undefined) fail(at, `the same message as ${pointer(base, first)}; a message has one fate`);
    seen.set(address, index);
  }
}

function checkVariant(variant: Variant, base: string): void {
  if (variant.with === undefined && (variant.change ?? []).length === 0) {
    fail(base, 'a variant that varies nothing; give it a mitigation in with, or a change');
  }
  checkExpectation(variant.expect, pointer(base, 'expect'));
}

function checkExpectation(expect: Expectation, base: string): void {
  const violations = expect.violations ?? [];
  if (expect.verdict !== 'violated' && violations.length > 0) {
    fail(pointer(base, 'violations'), `a run that is ${expect.verdict} has no violations; leave them out`);
  }
  for (const [index, { atUs = 0, untilUs }] of violations.entries()) {
    checkOrder(atUs, untilUs, pointer(base, 'violations', index, 'untilUs'), 'atUs');
  }
  for (const [index, { fromUs, toUs }] of (expect.unavailable ?? []).entries()) {
    checkOrder(fromUs, toUs, pointer(base, 'unavailable', index, 'toUs'), 'fromUs');
  }
}

function checkOrder(start: number, end: number | undefined, path: string, name: string): void {
  if (end !== undefined && end < start) fail(path, `${end} is before ${name}; it must be at least ${start}`);
}
