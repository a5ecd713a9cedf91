import { policyOf } from '../deviations/index.js';
import type { ClientPlan, Schedule } from '../scenarios/index.js';
import { Observer } from './observer.js';
import { ScriptedAdversary } from './scripted.js';
import type { TraceEvent } from './trace.js';
import type { ClientView, Setup } from './view.js';
import { World } from './world.js';

/** What a run leaves behind. */
export interface Run {
  /** 16 hexadecimal digits: the same schedule gives the same hash, everywhere. */
  readonly hash: string;
  /** Events handled by the engine, and steps taken by the lock of `core`. */
  readonly events: number;
  readonly steps: number;
  /** True time at the end, µs. */
  readonly endUs: number;
  /** What happened; empty unless asked for. */
  readonly trace: readonly TraceEvent[];
}

/** How a schedule is run. */
interface SimulateOptions {
  /** Keep the trace, not only its hash. Default `false`. */
  readonly trace?: boolean;
  /** Sees the run from outside. */
  readonly observer?: Observer;
}

/** What a schedule says of the world before anything happens. */
export function setupOf(schedule: Schedule): Setup {
  return {
    cluster: schedule.cluster,
    policy: policyOf(schedule.policy),
    clients: schedule.clients.map((client) => client.id),
    ...(schedule.clients.some(isApart) ? { views: schedule.clients.map(viewOf) } : {}),
    resource: schedule.resource ?? 'none',
    untilUs: schedule.untilUs,
  };
}

function isApart({ nodes, keyPrefix, timing }: ClientPlan): boolean {
  return nodes !== undefined || keyPrefix !== undefined || timing !== undefined;
}

/** What a client knows of the cluster that is its own. */
function viewOf({ nodes, keyPrefix, timing }: ClientPlan): ClientView {
  return {
    ...(nodes === undefined ? {} : { nodes }),
    ...(keyPrefix === undefined ? {} : { keyPrefix }),
    ...(timing === undefined ? {} : { timing }),
  };
}

/** What a world leaves behind after its run. */
export function runOf(world: World): Run {
  let steps = 0;
  for (const client of world.clients) steps += client.steps;
  const { trace } = world.context;
  return { hash: trace.digest(), events: world.events, steps, endUs: world.now, trace: trace.events };
}

/**
 * Runs a schedule to its end.
 *
 * @example
 * ```ts
 * const { hash, trace } = simulate(schedule, { trace: true });
 * ```
 */
export function simulate(schedule: Schedule, options: SimulateOptions = {}): Run {
  const observer = options.observer ?? new Observer();
  const world = new World(setupOf(schedule), new ScriptedAdversary(schedule), observer, options.trace ?? false);
  world.run();
  return runOf(world);
}
