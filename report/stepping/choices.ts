import type { Fault, LockPlan, Schedule, WritePlan } from '../../scenarios/index.js';
import { plainLock } from '../../scenarios/plain.js';
import { after, type ClientProcess, nodeName, type TraceEvent, trueTime } from '../../sim/index.js';
import {
  advanced,
  type InFlight,
  type Moment,
  momentOf,
  nextByItself,
  STEP_US,
  UNDECIDED_US,
  withFate,
} from './advance.js';

/** How far ahead it is looked for what happens by itself, µs. */
const HORIZON_US = 600_000_000;
const USUAL_TTL_MS = 10_000;

/** Something that can happen next. */
export interface Choice {
  readonly group: 'time' | 'messages' | 'clients' | 'nodes';
  /** A message, by the event that sent it, or a process. */
  readonly subject: TraceEvent | string;
  /** What happens to it, as one button says it. */
  readonly action: string;
  /** What has happened then. */
  readonly take: () => Schedule;
}

/**
 * All that can happen next, where a schedule ends: a message arrives or is lost, time goes on to what happens by itself, a
 * client acts, a fault strikes.
 */
export function choicesOf(schedule: Schedule): Choice[] {
  const moment = momentOf(schedule);
  return [
    ...timeChoices(schedule),
    ...messageChoices(schedule, moment),
    ...moment.world.clients.flatMap((client) => clientChoices(schedule, moment, client)),
    ...Array.from({ length: schedule.cluster.nodes }, (_, node) => nodeChoices(schedule, moment, node)).flat(),
  ];
}

function timeChoices(schedule: Schedule): Choice[] {
  const next = nextByItself(schedule, HORIZON_US);
  if (next === null) return [];
  return [{ group: 'time', subject: next, action: 'let time pass', take: () => advanced(schedule, next.atUs) }];
}

function messageChoices(schedule: Schedule, { inFlight }: Moment): Choice[] {
  const links = new Set<string>();
  return inFlight.flatMap(({ address, event }: InFlight): Choice[] => {
    // On one connection nothing overtakes.
    const link = `${address.client} ${address.node} ${address.direction}`;
    const isFirst = schedule.cluster.link === 'reordering' || !links.has(link);
    links.add(link);
    const group = 'messages';
    const arrives: Choice = {
      group,
      subject: event,
      action: 'arrives',
      take: () => advanced(schedule, schedule.untilUs + STEP_US, address),
    };
    const lost: Choice = {
      group,
      subject: event,
      action: 'is lost',
      take: () => advanced(withFate(schedule, address, { lost: true }), schedule.untilUs),
    };
    return isFirst ? [arrives, lost] : [lost];
  });
}

function clientChoices(schedule: Schedule, { trace }: Moment, client: ClientProcess): Choice[] {
  const { name, index } = client;
  const thenUs = schedule.untilUs + STEP_US;
  const act = (action: string, changed: () => Schedule): Choice => ({
    group: 'clients',
    subject: name,
    action,
    take: () => advanced(changed(), thenUs),
  });
  const strike = (action: string, fault: Fault): Choice => act(action, () => withFault(schedule, fault));
  if (client.down) {
    const restarts = (fault: Fault): Fault =>
      fault.kind === 'client-crash' && fault.client === name && fault.restartAfterUs === undefined
        ? { ...fault, restartAfterUs: thenUs - fault.atUs }
        : fault;
    return [act('restarts', () => ({ ...schedule, faults: schedule.faults.map(restarts) }))];
  }
  if (client.pausedUntil > schedule.untilUs) {
    return [act('goes on', () => ({ ...schedule, faults: thawed(schedule, name, thenUs) }))];
  }
  const held = client.locks.findLastIndex((lock) => lock.believing && !lock.gone);
  const last = client.locks.at(-1);
  const isIdle = last === undefined || last.gone || ['failed', 'released', 'lost'].includes(last.state.phase);
  const { resources = ['a'], ttlMs = USUAL_TTL_MS } = usualPlan(schedule);
  const asks = act(`asks for ${resources.join(', ')}`, () =>
    withLock(schedule, index, client.locks.length, plainLock(thenUs, ttlMs, { resources })),
  );
  return [
    ...(isIdle ? [asks] : []),
    ...(held < 0 ? [] : holderChoices(schedule, trace, client, held, act)),
    ...writeChoices(schedule, trace, client, act),
    strike('is frozen', { kind: 'pause', atUs: thenUs, process: name, forUs: 2 * 1000 * ttlMs }),
    strike('dies', { kind: 'client-crash', atUs: thenUs, client: name }),
  ];
}

type Act = (action: string, changed: () => Schedule) => Choice;

/** What a client can do that holds a lock. */
function holderChoices(
  schedule: Schedule,
  trace: readonly TraceEvent[],
  client: ClientProcess,
  number: number,
  act: Act,
): Choice[] {
  const plan = schedule.clients[client.index]?.locks[number];
  const sinceUs = sinceClaim(trace, client, number, schedule.untilUs + STEP_US);
  if (plan === undefined || sinceUs === null) return [];
  const change = (changes: Partial<LockPlan>): Schedule =>
    withLock(schedule, client.index, number, { ...plan, ...changes });
  const write: WritePlan = {
    checkAfterUs: sinceUs,
    guardUs: 0,
    sendAfterUs: UNDECIDED_US,
    delayUs: UNDECIDED_US,
  };
  return [
    ...(plan.holdUs === null ? [act('releases it', () => change({ holdUs: sinceUs }))] : []),
    act('extends it', () => change({ extensions: [...plan.extensions, { afterUs: sinceUs, ttlMs: plan.ttlMs }] })),
    act('checks it, to write', () => change({ writes: [...plan.writes, write] })),
  ];
}

/** Writes that a client has checked its lock for, and those that are on their way. */
function writeChoices(schedule: Schedule, trace: readonly TraceEvent[], client: ClientProcess, act: Act): Choice[] {
  const thenUs = schedule.untilUs + STEP_US;
  return (schedule.clients[client.index]?.locks ?? []).flatMap((plan, number) => {
    const count = (kind: TraceEvent['kind']): number =>
      trace.filter((it) => it.process === client.name && it.kind === kind && it.detail.lock === number).length;
    const change = (index: number, changes: Partial<WritePlan>): Schedule => {
      const writes = plan.writes.map((write, i) => (i === index ? { ...write, ...changes } : write));
      return withLock(schedule, client.index, number, { ...plan, writes });
    };
    const sinceUs = sinceClaim(trace, client, number, thenUs);
    const unsent = plan.writes.findIndex(({ sendAfterUs }) => sendAfterUs === UNDECIDED_US);
    const late = plan.writes.findIndex((it) => it.delayUs === UNDECIDED_US && it.sendAfterUs !== UNDECIDED_US);
    const sentUs = trace.findLast(
      (it) => it.process === client.name && it.kind === 'write-sent' && it.detail.lock === number,
    )?.atUs;
    const canSend = unsent >= 0 && sinceUs !== null && count('write-checked') > count('write-sent');
    return [
      ...(canSend ? [act('sends its write', () => change(unsent, { sendAfterUs: sinceUs }))] : []),
      ...(late >= 0 && sentUs !== undefined
        ? [act('has its write arrive', () => change(late, { delayUs: thenUs - sentUs }))]
        : []),
    ];
  });
}

/** Time since a lock was acquired, by its client's clock, as it will be at `thenUs`; `null` if it never was. */
function sinceClaim(
  trace: readonly TraceEvent[],
  client: ClientProcess,
  number: number,
  thenUs: number,
): number | null {
  const claim = trace.find(
    ({ kind, process, detail }) => kind === 'claim' && process === client.name && detail.lock === number,
  );
  return claim === undefined ? null : Math.max(0, client.clock.read(trueTime(thenUs)) - claim.localUs);
}

function nodeChoices(schedule: Schedule, { world }: Moment, index: number): Choice[] {
  const node = nodeName(index);
  const thenUs = schedule.untilUs + STEP_US;
  const strike = (action: string, faults: readonly Fault[]): Choice => ({
    group: 'nodes',
    subject: node,
    action,
    take: () => advanced({ ...schedule, faults }, thenUs),
  });
  const more = (fault: Fault): readonly Fault[] => withFault(schedule, fault).faults;
  const atUs = thenUs;
  if (world.nodes[index]?.down === true) {
    const last = schedule.faults.findLastIndex((it) => it.kind === 'crash' && it.node === node);
    const restarted = schedule.faults.map((it, i) =>
      i === last && it.kind === 'crash' ? { ...it, restartAfterUs: thenUs - it.atUs } : it,
    );
    return [strike('restarts', restarted)];
  }
  const isOnDisk = schedule.cluster.persistence === 'everysec';
  const power = isOnDisk ? { power: true } : {};
  return [
    strike(isOnDisk ? 'loses power, back at once' : 'crashes, back at once', [
      ...more({ kind: 'crash', atUs, node, ...power, restartAfterUs: 0 }),
    ]),
    strike('crashes, stays down', more({ kind: 'crash', atUs, node, ...power, restartAfterUs: null })),
    strike('clock jumps a TTL', more({ kind: 'clock-step', atUs, process: node, byUs: jumpUs(schedule) })),
  ];
}

function jumpUs(schedule: Schedule): number {
  return 1000 * (usualPlan(schedule).ttlMs ?? USUAL_TTL_MS) + STEP_US;
}

function usualPlan({ clients }: Schedule): Partial<LockPlan> {
  return clients.flatMap(({ locks }) => locks)[0] ?? {};
}

function withFault(schedule: Schedule, fault: Fault): Schedule {
  return { ...schedule, faults: [...schedule.faults, fault] };
}

/** The faults of a schedule, with a pause that ends now. */
function thawed({ faults, untilUs }: Schedule, process: string, thenUs: number): Fault[] {
  return faults.map((fault) =>
    (fault.kind === 'pause' || fault.kind === 'suspend') &&
    fault.process === process &&
    after(trueTime(fault.atUs), fault.forUs) > untilUs
      ? { ...fault, forUs: thenUs - fault.atUs }
      : fault,
  );
}

function withLock(schedule: Schedule, client: number, number: number, plan: LockPlan): Schedule {
  const clients = schedule.clients.map((it, i) => {
    if (i !== client) return it;
    const locks = [...it.locks];
    locks[number] = plan;
    return { ...it, locks };
  });
  return { ...schedule, clients };
}

/**
 * The same cluster and clients before anything has happened: where stepping from the beginning begins.
 *
 * @param schedule - What its cluster, policy and clients are like.
 */
export function beginningOf(schedule: Schedule): Schedule {
  const clients = schedule.clients.map((client) => ({ ...client, locks: [] }));
  return { ...schedule, clients, faults: [], fates: [], untilUs: 0 };
}
