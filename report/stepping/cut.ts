import type { ClientPlan, Fault, LockPlan, Schedule, WritePlan } from '../../scenarios/index.js';
import type { TraceEvent, World } from '../../sim/index.js';
import { advanced, momentOf, UNDECIDED_US } from './advance.js';

/**
 * What has happened in a run by `atUs`, as a schedule that ends there: nothing of what comes later is planned, and what
 * is on its way has not been decided.
 *
 * @param atUs - µs of true time, within the run.
 */
export function cutAt(schedule: Schedule, atUs: number): Schedule {
  const until = { ...schedule, untilUs: Math.min(atUs, schedule.untilUs) };
  const { world, trace } = momentOf(until);
  const clients = until.clients.map((client, i) => cutClient(client, trace, world, i));
  const faults = until.faults.flatMap((fault) => cutFault(fault, until.untilUs, world));
  return advanced({ ...until, clients, faults }, until.untilUs);
}

function cutClient(client: ClientPlan, trace: readonly TraceEvent[], world: World, index: number): ClientPlan {
  const own = trace.filter(({ process }) => process === client.id);
  const nowLocalUs = world.clients[index]?.clock.read(world.now) ?? world.now;
  const locks = client.locks.map((plan, number) => {
    const events = own.filter(({ detail }) => detail.lock === number);
    return cutLock(plan, events, nowLocalUs);
  });
  // Places in the list are numbers of locks: what was not called for stays, if something behind it was.
  const last = locks.findLastIndex(({ atUs }) => atUs < UNDECIDED_US);
  return { ...client, locks: locks.slice(0, last + 1) };
}

function cutLock(plan: LockPlan, events: readonly TraceEvent[], nowLocalUs: number): LockPlan {
  const has = (kind: TraceEvent['kind']): boolean => events.some((event) => event.kind === kind);
  const claim = events.find(({ kind }) => kind === 'claim');
  const sinceUs = claim === undefined ? -1 : nowLocalUs - claim.localUs;
  return {
    ...plan,
    atUs: has('call') ? plan.atUs : UNDECIDED_US,
    holdUs: has('release-call') ? plan.holdUs : null,
    extensions: plan.extensions.filter(({ afterUs }) => afterUs <= sinceUs),
    writes: plan.writes
      .filter(({ checkAfterUs }) => checkAfterUs <= sinceUs)
      .map((write, i) => cutWrite(write, i, events, sinceUs)),
  };
}

function cutWrite(write: WritePlan, index: number, events: readonly TraceEvent[], sinceUs: number): WritePlan {
  const arrived = events.some(
    ({ kind, detail }) => (kind === 'write-arrived' || kind === 'write-refused') && detail.index === index,
  );
  if (arrived) return write;
  const sendAfterUs = write.sendAfterUs <= sinceUs ? write.sendAfterUs : UNDECIDED_US;
  return { ...write, sendAfterUs, delayUs: UNDECIDED_US };
}

function cutFault(fault: Fault, nowUs: number, world: World): Fault[] {
  if (fault.atUs > nowUs) return [];
  if (fault.kind === 'crash') {
    const isDown = world.nodes[Number(fault.node.slice(1))]?.down === true;
    const { restartBy: _, ...rest } = fault;
    return [isDown ? { ...rest, restartAfterUs: null } : fault];
  }
  if (fault.kind === 'client-crash') {
    const isDown = world.clients.find(({ name }) => name === fault.client)?.down === true;
    const { restartAfterUs: _, ...rest } = fault;
    return [isDown ? rest : fault];
  }
  return [fault];
}
