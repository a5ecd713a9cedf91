import { policyOf } from '../deviations/index.js';
import { SEARCHED } from '../properties/property-lists.js';
import { InputError } from '../scenarios/input-error.js';
import type { PropertyId } from '../scenarios/scenario.js';
import type { Fault, Schedule } from '../scenarios/schedule.js';
import { exceedBound, type FaultModel, NO_FAULTS, NO_STRETCH, WITHIN_ASSUMPTIONS } from '../search/fault-model.js';
import { DEMONSTRATION, searchOf } from '../search/settings.js';
import type { StrategyName } from '../search/strategy-info.js';
import type { CheckFlags } from './flags.js';

/** A search, resolved from flags and defaults. */
export interface Plan {
  readonly faultModel: FaultModel;
  readonly seed: string;
  /** `null` for no limit but the budget. */
  readonly runs: number | null;
  readonly budgetMs: number | null;
  readonly properties: readonly PropertyId[];
  /** Further properties, which count only in schedules that keep the assumptions of the lock. */
  readonly insideOnly: readonly PropertyId[];
  readonly strategy: StrategyName;
  readonly shrink: boolean;
}

const RUNS = 10_000;
const DEMO_RUNS = 1_000;
const SEED = '1';

/** Resolves flags; `around` is the schedule of a scenario to search around. */
export function planOf(given: CheckFlags, around: Schedule | null): Plan {
  const flags: CheckFlags = given.demo ? { ...DEMONSTRATION, runs: DEMO_RUNS, ...given } : given;
  const base = around === null ? WITHIN_ASSUMPTIONS : weatherAround(around);
  const { budget, runs, seed = SEED } = flags;
  const { exceed: beyond, exceedBy = A_STEP_PAST, strategy = 'combination' } = flags;
  if (beyond === undefined && flags.exceedBy !== undefined) {
    throw new InputError(
      '--exceed-by: it says how far past which bound? Add --exceed clock-drift, clock-step, restart-delay or data-loss',
    );
  }
  const { faultModel, properties, insideOnly } = searchOf(flags, base);
  return {
    faultModel: beyond === undefined ? faultModel : exceedBound(faultModel, beyond, 1 + exceedBy / MILLION),
    seed,
    runs: runs ?? (budget === undefined ? RUNS : null),
    budgetMs: budget === undefined ? null : budget / 1000,
    properties,
    insideOnly,
    strategy,
    shrink: flags.shrink,
  };
}

/** Properties that a search could judge, and does not. */
export function unjudged(properties: readonly PropertyId[], insideOnly: readonly PropertyId[]): PropertyId[] {
  return SEARCHED.filter((it) => !properties.includes(it) && !insideOnly.includes(it));
}

/** 2 % past a bound is a millisecond or two for usual TTLs. */
const A_STEP_PAST = 20_000;
const MILLION = 1_000_000;

/** Share of messages lost where a scenario says nothing of it: some always are. */
const USUAL_LOSS_PPM = 20_000;
/** A fate with a delay as long as this is one that was held up, µs. */
const HELD_UP_US = 50_000;

/** The cluster and clients of a schedule, and faults of the kinds and sizes that it has. */
function weatherAround(schedule: Schedule): FaultModel {
  const { cluster, clients, faults, fates } = schedule;
  const count = (kind: Fault['kind']): number => faults.filter((fault) => fault.kind === kind).length;
  const restarts = faults.flatMap((it) =>
    it.kind === 'crash' && it.restartAfterUs !== null ? [it.restartAfterUs] : [],
  );
  const steps = faults.flatMap((it) => (it.kind === 'clock-step' ? [Math.abs(it.byUs)] : []));
  const rates = [
    ...cluster.clocks.map((clock) => Math.abs(clock.ratePpm)),
    ...faults.flatMap((it) => (it.kind === 'clock-drift' ? [Math.abs(it.ratePpm)] : [])),
  ].filter((ppm) => ppm > 0);
  const [ttl = 10_000, ...ttls] = new Set(clients.flatMap((client) => client.locks.map((lock) => lock.ttlMs)));
  return {
    ...WITHIN_ASSUMPTIONS,
    ...NO_FAULTS,
    nodes: cluster.nodes,
    clients: clients.length,
    ttlsMs: [ttl, ...ttls],
    policy: policyOf(schedule.policy),
    persistence: cluster.persistence,
    resource: schedule.resource ?? 'none',
    stretch: {
      ...NO_STRETCH,
      'clock-drift': rates.length > 0 ? 1 : 0,
      'clock-step': steps.length > 0 ? 1 : 0,
      'restart-delay': count('crash') > 0 ? 1 : 0,
    },
    restartDelayUs: restarts.length > 0 ? Math.min(...restarts) : null,
    stepUs: steps.length > 0 ? Math.max(...steps) : null,
    ratePpm: rates.length > 0 ? Math.max(...rates) : null,
    crashes: schedule.faults.filter((it) => it.kind === 'crash' && it.power !== true).length,
    powerLosses: schedule.faults.filter((it) => it.kind === 'crash' && it.power === true).length,
    pauses: count('pause'),
    suspends: count('suspend'),
    clientCrashes: count('client-crash'),
    partitions: count('partition'),
    failovers: count('failover'),
    replicaLagUs: cluster.replicaLagUs ?? 0,
    flushes: count('data-loss'),
    refusals: count('error-replies'),
    lossPpm: USUAL_LOSS_PPM,
    duplicatePpm: fates.some((fate) => fate.duplicateDelayUs !== undefined) ? USUAL_LOSS_PPM : 0,
    spikePpm: fates.some((fate) => (fate.delayUs ?? 0) >= HELD_UP_US) ? USUAL_LOSS_PPM : 0,
  };
}
