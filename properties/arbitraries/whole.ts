import fc from 'fast-check';
import type { Cluster, PolicyChoice, Schedule } from '../../scenarios/index.js';
import { courseOf, withCourse } from '../course.js';
import { given } from './given.js';
import { type CourseOptions, courseArbitrary } from './schedule.js';
import { time } from './time.js';

/** What generated schedules are about. */
export interface ScheduleOptions extends CourseOptions {
  /** The policy of all clients. Default the reference. */
  readonly policy?: PolicyChoice;
  /** What nodes may do with their keys in a crash. Default all three. */
  readonly persistence?: readonly Cluster['persistence'][];
  /** Usual one-way delays are at most this, µs. Default 5,000. */
  readonly mostDelayUs?: number;
}

const PERSISTENCE: readonly Cluster['persistence'][] = ['always', 'everysec', 'rdb', 'none'];

/** Clusters with right clocks, without replicas. */
export function clusterArbitrary(options: ScheduleOptions): fc.Arbitrary<Cluster> {
  return fc.record({
    nodes: fc.constant(options.nodes),
    delayUs: time(options.mostDelayUs ?? 5_000),
    distances: given<Cluster['distances']>([]),
    link: fc.constantFrom('fifo' as const, 'reordering' as const),
    expiry: fc.constant('after' as const),
    resolutionUs: fc.constant(1000 as const),
    persistence: fc.constantFrom(...(options.persistence ?? PERSISTENCE)),
    replicaLagUs: fc.constant(null),
    clocks: given<Cluster['clocks']>([]),
  });
}

/**
 * Whole schedules, which shrink part by part: the cluster, the clients with their work, the faults, what becomes of
 * messages, the errors of clocks.
 *
 * @example
 * ```ts
 * const schedules = scheduleArbitrary({
 *   nodes: 3,
 *   clients: 2,
 *   ttlMs: 1_000,
 *   untilUs: 5_000_000,
 *   faults: ['crash'],
 *   leastRestartUs: 2_000_000,
 *   mostFaults: 2,
 *   mostFates: 10,
 * });
 * fc.assert(fc.property(schedules, (schedule) => judge(schedule).verdicts.belief === 'safe'));
 * ```
 */
export function scheduleArbitrary(options: ScheduleOptions): fc.Arbitrary<Schedule> {
  const policy = options.policy ?? { profile: 'reference', with: {} };
  return fc.tuple(clusterArbitrary(options), courseArbitrary(options)).map(([cluster, course]) => {
    const { untilUs } = options;
    const empty: Schedule = {
      schema: 'lockstep.schedule/1',
      cluster,
      policy,
      clients: [],
      faults: [],
      fates: [],
      untilUs,
    };
    return withCourse(empty, course);
  }, partsOf);
}

function partsOf(value: unknown): [Cluster, ReturnType<typeof courseOf>] {
  const schedule = value as Schedule;
  return [{ ...schedule.cluster, clocks: [] }, courseOf(schedule)];
}
