import { addressText } from '../scenarios/address.js';
import type { ClientPlan, Fate, Fault, ProcessName, Schedule } from '../scenarios/index.js';
import { nodeName } from '../sim/index.js';
import type { ScheduleBody } from './arbitraries/schedule.js';

/** The varying parts of a schedule. */
export function bodyOf(schedule: Schedule): ScheduleBody {
  const { clients, faults, fates, cluster } = schedule;
  return { clients, faults, fates, clocks: cluster.clocks };
}

/** A schedule with another course, made consistent: whatever names something that is not there is left out. */
export function withBody(schedule: Schedule, course: ScheduleBody): Schedule {
  const clients = uniqueBy(course.clients, (client) => client.id).map(inOrder);
  const processes = new Set([
    ...clients.map((client) => client.id),
    ...Array.from({ length: schedule.cluster.nodes }, (_, i) => nodeName(i)),
  ]);
  const faults = course.faults.flatMap((fault) => present(fault, processes) ?? []);
  const locks = new Map(clients.map((client) => [client.id, client.locks.length]));
  const fates = uniqueBy(course.fates.map(plain), addressText).filter(
    (fate) => (fate.lock ?? 0) < (locks.get(fate.client) ?? 0) && saysSomething(fate),
  );
  const clocks = uniqueBy(course.clocks, (clock) => clock.process).filter(
    (clock) => processes.has(clock.process) && (clock.offsetUs !== 0 || clock.ratePpm !== 0),
  );
  const distances = schedule.cluster.distances.filter(({ client }) => processes.has(client));
  return { ...schedule, cluster: { ...schedule.cluster, clocks, distances }, clients, faults, fates };
}

/** The fault as far as it concerns processes that are there, or `null` if it does not. */
function present(fault: Fault, processes: ReadonlySet<ProcessName>): Fault | null {
  if (fault.kind === 'crash' && fault.power === true && fault.clean === true) {
    const { clean: _clean, ...rest } = fault;
    return present(rest, processes);
  }
  if (fault.kind === 'failover' && fault.to === fault.node) return null;
  if (fault.kind !== 'partition') return processes.has(subjectOf(fault)) ? fault : null;
  const from = fault.from.filter((name) => processes.has(name));
  const to = fault.to.filter((name) => processes.has(name) && !from.includes(name));
  return from.length > 0 && to.length > 0 ? { ...fault, from, to } : null;
}

/** A write is never sent before its check. */
function inOrder(client: ClientPlan): ClientPlan {
  const locks = client.locks.map((lock) => ({
    ...lock,
    writes: lock.writes.map((write) => ({ ...write, sendAfterUs: Math.max(write.sendAfterUs, write.checkAfterUs) })),
  }));
  return { ...client, locks };
}

function subjectOf(fault: Exclude<Fault, { kind: 'partition' }>): string {
  if ('node' in fault) return fault.node;
  return 'client' in fault ? fault.client : fault.process;
}

/** Without what is the default anyway; a lost message has no delay. */
function plain(fate: Fate): Fate {
  const { lost, delayUs, lock, attempt, round, send, resendAfterUs, ...rest } = fate;
  return {
    ...rest,
    ...(lock ? { lock } : {}),
    ...(attempt ? { attempt } : {}),
    ...(round ? { round } : {}),
    ...(send ? { send } : {}),
    ...(lost ? { lost } : delayUs === undefined ? {} : { delayUs }),
    ...(resendAfterUs === undefined || fate.direction === 'reply' ? {} : { resendAfterUs }),
  };
}

function saysSomething(fate: Fate): boolean {
  return (
    fate.lost === true ||
    fate.delayUs !== undefined ||
    fate.duplicateDelayUs !== undefined ||
    fate.resendAfterUs !== undefined
  );
}

function uniqueBy<T>(list: readonly T[], key: (item: T) => string): T[] {
  const seen = new Set<string>();
  return list.filter((item) => {
    const name = key(item);
    if (seen.has(name)) return false;
    seen.add(name);
    return true;
  });
}
