import type { Fault } from '../../scenarios/index.js';
import { nodeName, type RandomStream } from '../../sim/index.js';
import { lossAgeUs, meanDownUs, residualDownUs } from './downtime.js';
import { between, logBetween, unit } from './draws.js';
import { type Bin, CAUSE_NAMES, type CauseName, type RiskModel, type RiskNode, YEAR_US } from './model.js';

/** When the lock is asked for in every run, µs: late enough for what began before. */
export const CALL_US = 1_000_000;

/**
 * When an event begins: `before` the lock is asked for, and it is still going on; while it is `held`; between the last look
 * at the lock and the sending of the write (`gap`); `after` the planned end of the hold, for which there is a reason only if
 * something makes that later.
 */
export type Window = 'before' | 'held' | 'gap' | 'after';

/** Events that are alike: of one cause, one bar of its histogram and one window, on nodes that are alike. */
export interface EventClass {
  readonly key: string;
  readonly cause: CauseName;
  readonly window: Window;
  readonly bin: Bin;
  /** Those that it may strike, by their numbers; empty where that is no matter of nodes. */
  readonly nodes: readonly number[];
  /** How many are to be expected for one hold. */
  readonly mean: number;
}

/** What one event does to a run. */
export interface DrawnEvent {
  readonly cause: CauseName;
  readonly window: Window;
  /** In the window `gap`, times count from the last look. */
  readonly faults: readonly Fault[];
  /** By how much it makes the work longer, µs on the client's clock. */
  readonly longerUs: number;
  /** How long the write takes, where the event is about that. */
  readonly writeUs: number | null;
}

const LASTING: readonly CauseName[] = ['crash', 'powerLoss', 'powerLossOfAll', 'failover', 'partition'];
const OF_NODES: readonly CauseName[] = ['crash', 'powerLoss', 'failover', 'dataLoss', 'nodeStep', 'partition'];
/** What makes a client late. */
const PROLONGING: readonly CauseName[] = ['pause', 'suspend', 'vmPause'];

/** Whether an event of this class makes the hold longer than planned. */
export function prolongs({ cause }: Pick<EventClass, 'cause'>): boolean {
  return PROLONGING.includes(cause);
}

/** Whether an event that began before the lock is asked for still matters: not a pause, which lets the client ask later. */
export function lasts(cause: CauseName): boolean {
  return LASTING.includes(cause);
}

/** The windows of a hold of this length, µs. */
export function windowsOf(model: RiskModel, holdUs: number): Record<Exclude<Window, 'before'>, number> {
  const gap = model.writes ? model.gapUs : 0;
  const held = 2 * model.delayUs[1] + holdUs + (model.writes ? model.writeUs[1] : 0);
  return { held, gap, after: 1000 * model.ttlMs };
}

/** All classes of events of a model, for holds of this length. */
export function eventClasses(model: RiskModel, holdUs: number): EventClass[] {
  const windows = windowsOf(model, holdUs);
  const late = CAUSE_NAMES.some((cause) => PROLONGING.includes(cause) && model.rates[cause] !== undefined);
  const classes = CAUSE_NAMES.flatMap((cause) => {
    const rate = model.rates[cause];
    if (rate === undefined || rate.perYear === 0) return [];
    return groupsOf(model, cause).flatMap((nodes) =>
      rate.bins.flatMap((bin, i): EventClass[] => {
        const perUs = (rate.perYear * bin.share * Math.max(1, nodes.length)) / YEAR_US;
        const make = (window: Window, mean: number): EventClass => {
          return { key: `${cause}.${nodes[0] ?? ''}.${i}.${window}`, cause, window, bin, nodes, mean };
        };
        if (cause === 'lateWrite') return [make('held', model.writes ? rate.perYear * bin.share : 0)];
        const own = [make('held', perUs * windows.held)];
        if (lasts(cause)) own.push(make('before', perUs * lastingUs(model, cause, bin, nodes)));
        if (PROLONGING.includes(cause)) return [...own, make('gap', perUs * windows.gap)];
        return late ? [...own, make('after', perUs * windows.after)] : own;
      }),
    );
  });
  return classes.filter(({ mean }) => mean > 0);
}

/** Nodes to which an event means the same. */
function groupsOf({ nodes }: RiskModel, cause: CauseName): number[][] {
  if (!OF_NODES.includes(cause)) return [[]];
  const groups = new Map<string, number[]>();
  for (const [i, node] of nodes.entries()) {
    const key = JSON.stringify(node);
    groups.set(key, [...(groups.get(key) ?? []), i]);
  }
  return [...groups.values()];
}

/** How long an event goes on, on average, µs. */
function lastingUs(model: RiskModel, cause: CauseName, bin: Bin, nodes: readonly number[]): number {
  return meanDownUs(bin, leastDownUs(model, cause, nodes));
}

function leastDownUs(model: RiskModel, cause: CauseName, nodes: readonly number[]): number {
  if (cause === 'partition' || cause === 'failover') return 0;
  const least = (nodes.length === 0 ? model.nodes : nodes.flatMap((i) => model.nodes[i] ?? [])).map(
    ({ restartUs }) => restartUs ?? 2000 * model.ttlMs,
  );
  return Math.min(...least);
}

/** Draws one event of a class. */
export function drawEvent(model: RiskModel, holdUs: number, of: EventClass, stream: RandomStream): DrawnEvent {
  const { cause, window, bin, nodes } = of;
  const windows = windowsOf(model, holdUs);
  const at = unit(stream);
  const from = { before: 0, held: CALL_US, gap: 0, after: CALL_US + windows.held }[window];
  const atUs = Math.floor(window === 'before' ? 0 : from + at * windows[window]);
  const least = leastDownUs(model, cause, nodes);
  const isUnderWay = window === 'before';
  const size = isUnderWay ? CALL_US + residualDownUs(bin, least, stream) : logBetween(bin, stream);
  const node = nodes[Math.floor(unit(stream) * nodes.length)] ?? 0;
  return { cause, window, ...consequence({ model, cause, atUs, size, isUnderWay, node, stream }) };
}

/** An event whose time, extent and node are known. */
interface Strike {
  readonly model: RiskModel;
  readonly cause: CauseName;
  readonly atUs: number;
  /** The value that was drawn from the histogram; of what began before, how long it goes on from the start of the run. */
  readonly size: number;
  readonly isUnderWay: boolean;
  readonly node: number;
  /** For what else is to be drawn: how old a disk is, how far a replica is behind. */
  readonly stream: RandomStream;
}

/** What an event does to a run. */
export function consequence(drawn: Strike): Omit<DrawnEvent, 'cause' | 'window'> {
  const { cause, size } = drawn;
  const none = { faults: [], longerUs: 0, writeUs: null };
  if (cause === 'lateWrite') return { ...none, writeUs: size };
  if (PROLONGING.includes(cause)) return { ...none, ...standstill(drawn) };
  return { ...none, faults: faultsOf(drawn) };
}

function standstill({ model, cause, atUs, size }: Strike): Pick<DrawnEvent, 'faults' | 'longerUs'> {
  const base = { atUs, process: 'c1', forUs: size };
  if (cause === 'pause') return { faults: [{ kind: 'pause', ...base }], longerUs: size };
  const stops = cause === 'vmPause' ? 'all' : 'monotonic';
  // Where the client's own clock stops too, what is planned by it comes later by itself.
  const isCounted = stops === 'monotonic' && model.policy.habits.clock !== 'monotonic';
  return { faults: [{ kind: 'suspend', ...base, stops }], longerUs: isCounted ? size : 0 };
}

function faultsOf(strike: Strike): Fault[] {
  const { model, cause, atUs, size, node: i, stream } = strike;
  const name = nodeName(i);
  const node = model.nodes[i];
  if (node === undefined) return [];
  switch (cause) {
    case 'crash':
    case 'powerLoss':
      return [crash(strike, i, node)];
    case 'powerLossOfAll':
      return model.nodes.map((it, n) => crash(strike, n, it));
    case 'failover': {
      const lagUs = between(0, node.lagUs, stream);
      return [
        { kind: 'crash', atUs, node: name, restartAfterUs: null },
        { kind: 'failover', atUs: atUs + size, node: name, lagUs },
      ];
    }
    case 'dataLoss':
      return [{ kind: 'data-loss', atUs, node: name }];
    case 'nodeStep':
      return [{ kind: 'clock-step', atUs, process: name, byUs: size }];
    case 'nodeStepOfAll':
      return model.nodes.map((_, n) => ({ kind: 'clock-step', atUs, process: nodeName(n), byUs: size }));
    case 'clientStep':
      return [{ kind: 'clock-step', atUs, process: 'c1', byUs: -size }];
    case 'partition':
      return [{ kind: 'partition', atUs, from: [name], to: ['c1', 'c2'], oneWay: false, forUs: size }];
    default:
      return [];
  }
}

function crash({ model, cause, atUs, size, isUnderWay, stream }: Strike, i: number, node: RiskNode): Fault {
  const power = cause !== 'crash';
  const ageUs = lossAgeUs(node, power, stream);
  const restartAfterUs = isUnderWay ? size : Math.max(size, node.restartUs ?? 2000 * model.ttlMs);
  return {
    kind: 'crash',
    atUs,
    node: nodeName(i),
    ...(power ? { power } : {}),
    ...(ageUs > 0 ? { ageUs } : {}),
    restartAfterUs,
  };
}
