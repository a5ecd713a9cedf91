import type { Settings } from '../../core/index.js';
import { policyOf } from '../../deviations/index.js';
import { addressText } from '../../scenarios/address.js';
import type { ClientPlan, Fate, Fault, LockPlan, Schedule } from '../../scenarios/index.js';
import { simulate, type TraceEvent } from '../../sim/index.js';
import { mapped, type TimeMap } from './time-map.js';

/** One-way delay of a message that nobody holds up, on the loopback through a proxy, µs. */
const REAL_DELAY_US = 1_000;
/** Durations of a policy from here on belong to the schedule's pace; shorter ones to that of the machine, µs. */
const LONG_US = 500_000;
/** A run goes on for so many periods after the last thing that is planned. */
const PERIODS_AFTER = 2.6;

/** How often durations are fitted to when things begin at the new pace; one time is too few where one leads to another. */
const FITTINGS = 3;

/**
 * The same schedule at another pace: everything that is written down happens in the same order, with the same lives of
 * keys between. What follows by itself takes what it takes: a message, a time-out, a pause between attempts.
 */
export function rescale(schedule: Schedule, map: TimeMap): Schedule {
  const written = new Instants(schedule);
  let paced = pacedFrom(schedule, map, written, null);
  for (let i = 0; i < FITTINGS; i++) paced = pacedFrom(schedule, map, written, new Instants(paced));
  return paced;
}

/** `begun` says when things happen at the new pace, from which durations lead to where the instants come to lie. */
function pacedFrom(schedule: Schedule, map: TimeMap, written: Instants, begun: Instants | null): Schedule {
  const span: Span = (fromUs, forUs, begunUs = mapped(map, fromUs)) =>
    Math.max(0, mapped(map, fromUs + forUs) - begunUs);
  const clients = schedule.clients.map((client) => retimedClient(client, written, begun, map, span));
  const faults = schedule.faults.map((fault) => retimedFault(fault, map, span));
  const fates = schedule.fates.map((fate): Fate => {
    const sentUs = written.sent(fate);
    const begunUs = begun?.sent(fate);
    const { delayUs, duplicateDelayUs, resendAfterUs } = fate;
    return {
      ...fate,
      ...(delayUs === undefined ? {} : { delayUs: span(sentUs, delayUs, begunUs) }),
      ...(duplicateDelayUs === undefined ? {} : { duplicateDelayUs: span(sentUs, duplicateDelayUs, begunUs) }),
      ...(resendAfterUs === undefined ? {} : { resendAfterUs: span(sentUs, resendAfterUs, begunUs) }),
    };
  });
  const lastUs = Math.max(
    ...clients.flatMap(({ locks }) => locks.map(({ atUs }) => atUs)),
    ...faults.map((fault) => endOf(fault)),
    ...schedule.clients.flatMap((client) =>
      client.locks.map((plan, lock) => mapped(map, written.claimed(client.id, lock) + lastOf(plan))),
    ),
  );
  const untilUs = Math.min(mapped(map, schedule.untilUs), Math.round(lastUs + PERIODS_AFTER * map.realPeriodUs));
  const policy = {
    ...schedule.policy,
    settings: { ...schedule.policy.settings, ...pacedSettings(schedule, map) },
  };
  return { ...schedule, cluster: pacedCluster(schedule, map, span), policy, clients, faults, fates, untilUs };
}

function pacedCluster({ cluster }: Schedule, map: TimeMap, span: Span): Schedule['cluster'] {
  const { fsync, distances, delayUs } = cluster;
  const paced: Schedule['cluster'] = {
    ...cluster,
    delayUs: isSlower(map) ? Math.round((delayUs * map.realPeriodUs) / map.periodUs) : REAL_DELAY_US,
    distances: distances.map((it) => ({ ...it, delayUs: span(0, it.delayUs) })),
  };
  if (fsync === undefined) return paced;
  const { firstUs, everyUs, takesUs } = fsync;
  return {
    ...paced,
    fsync: { firstUs: mapped(map, firstUs), everyUs: span(0, everyUs), takesUs: span(firstUs, takesUs) },
  };
}

/** How long something takes that lasted `forUs` from `fromUs`, if it begins at `begunUs`: by default where that lies. */
type Span = (fromUs: number, forUs: number, begunUs?: number) => number;

function retimedClient(
  client: ClientPlan,
  written: Instants,
  begun: Instants | null,
  map: TimeMap,
  span: Span,
): ClientPlan {
  const ttlMs = (ms: number): number => Math.max(1, Math.round(mapped(map, ms * 1000) / 1000));
  return {
    ...client,
    locks: client.locks.map((plan, lock): LockPlan => {
      const claimUs = written.claimed(client.id, lock);
      const after = (us: number): number => span(claimUs, us, begun?.claimed(client.id, lock));
      return {
        ...plan,
        atUs: mapped(map, plan.atUs),
        ttlMs: ttlMs(plan.ttlMs),
        holdUs: plan.holdUs === null ? null : after(plan.holdUs),
        extensions: plan.extensions.map((it) => ({ ...it, afterUs: after(it.afterUs), ttlMs: ttlMs(it.ttlMs) })),
        writes: plan.writes.map((it) => ({
          ...it,
          checkAfterUs: after(it.checkAfterUs),
          sendAfterUs: after(it.sendAfterUs),
          delayUs: span(claimUs + it.sendAfterUs, it.delayUs),
        })),
      };
    }),
  };
}

function retimedFault(fault: Fault, map: TimeMap, span: Span): Fault {
  const atUs = mapped(map, fault.atUs);
  switch (fault.kind) {
    case 'crash':
      return {
        ...fault,
        atUs,
        restartAfterUs: fault.restartAfterUs === null ? null : span(fault.atUs, fault.restartAfterUs),
      };
    case 'clock-step':
      return { ...fault, atUs, byUs: Math.sign(fault.byUs) * span(0, Math.abs(fault.byUs)) };
    default:
      return 'forUs' in fault ? { ...fault, atUs, forUs: span(fault.atUs, fault.forUs) } : { ...fault, atUs };
  }
}

/** When a fault is over, as far as it ends. */
function endOf(fault: Fault): number {
  if (fault.kind === 'crash') return fault.atUs + (fault.restartAfterUs ?? 0);
  return 'forUs' in fault ? fault.atUs + fault.forUs : fault.atUs;
}

/** The last thing that is planned after a claim, µs from it. */
function lastOf({ holdUs, extensions, writes }: LockPlan): number {
  const ends = [holdUs ?? 0, ...extensions.map((it) => it.afterUs), ...writes.map((it) => it.sendAfterUs + it.delayUs)];
  return Math.max(...ends);
}

/** Whether everything takes longer, what the machine does included. */
function isSlower({ zones, realPeriodUs, periodUs }: TimeMap): boolean {
  return zones.length === 0 && realPeriodUs > periodUs;
}

/** When something is written to happen, µs. */
export function writtenInstants(schedule: Schedule): number[] {
  const instants = new Instants(schedule);
  const { fsync } = schedule.cluster;
  return [
    ...schedule.faults.flatMap((fault) => [fault.atUs, endOf(fault)]),
    ...(fsync === undefined ? [] : [fsync.firstUs, fsync.firstUs + fsync.takesUs]),
    ...schedule.clients.flatMap(({ id, locks }) =>
      locks.flatMap(({ atUs, holdUs, extensions, writes }, lock) => {
        const claimUs = instants.claimed(id, lock);
        const after = [holdUs ?? 0, ...extensions.map((it) => it.afterUs), ...writes.map((it) => it.sendAfterUs)];
        return [atUs, ...after.map((us) => claimUs + us)];
      }),
    ),
  ];
}

/** Long durations of the policy at the pace of the schedule; all of them where the pace is even and slower. */
function pacedSettings(schedule: Schedule, map: TimeMap): Partial<Settings> {
  const { settings } = policyOf(schedule.policy);
  const slower = isSlower(map);
  const scale = map.realPeriodUs / map.periodUs;
  const paced = (us: number): number => (slower || us >= LONG_US ? Math.round(us * scale) : us);
  const { nodeTimeoutUs, autoExtendAtUs } = settings;
  return {
    nodeTimeoutUs: nodeTimeoutUs === null ? null : paced(nodeTimeoutUs),
    retryDelayUs: paced(settings.retryDelayUs),
    retryJitterUs: paced(settings.retryJitterUs),
    autoExtendAtUs: autoExtendAtUs === null ? null : paced(autoExtendAtUs),
  };
}

/** When things happened in the schedule as it is written, which durations count from. */
class Instants {
  readonly #claims = new Map<string, number>();
  readonly #calls = new Map<string, number>();
  readonly #sends = new Map<string, number>();

  constructor(schedule: Schedule) {
    for (const client of schedule.clients)
      for (const [lock, plan] of client.locks.entries()) this.#calls.set(`${client.id} ${lock}`, plan.atUs);
    const counts = new Map<string, number>();
    for (const event of simulate(schedule, { trace: true }).trace) {
      if (event.kind === 'claim') {
        const key = `${event.process} ${event.detail.lock}`;
        if (!this.#claims.has(key)) this.#claims.set(key, event.atUs);
      }
      if (event.kind !== 'send' && event.kind !== 'lost') continue;
      const base = baseOf(event);
      const send = counts.get(base) ?? 0;
      counts.set(base, send + 1);
      this.#sends.set(`${base} ${send}`, event.atUs);
    }
  }

  claimed(client: string, lock: number): number {
    const key = `${client} ${lock}`;
    return this.#claims.get(key) ?? this.#calls.get(key) ?? 0;
  }

  sent(fate: Fate): number {
    return this.#sends.get(addressText(fate)) ?? this.claimed(fate.client, fate.lock ?? 0);
  }
}

function baseOf({ detail, process }: TraceEvent): string {
  const direction = process === detail.client ? 'request' : 'reply';
  const { client, lock, attempt, operation, round, node } = detail;
  return `${client} ${lock} ${attempt} ${operation} ${round} ${node} ${direction}`;
}
