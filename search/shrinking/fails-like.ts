import { judge } from '../../properties/judge.js';
import type { Violation } from '../../properties/violation.js';
import type { Fault, PropertyId, Schedule } from '../../scenarios/index.js';
import type { Fails } from './reduce.js';

/** What of a deployment stays as it is, whatever else goes: somebody asked about this one. */
export interface Deployment {
  readonly nodes: number;
  /** No node is back sooner after a crash, µs; 0 for any time. */
  readonly leastRestartUs: number;
}

function isIn({ nodes, leastRestartUs }: Deployment, { cluster, faults }: Schedule): boolean {
  return cluster.nodes === nodes && soonestRestartUs(faults) >= leastRestartUs;
}

/** How soon a node is back after a crash, µs; infinite if none is. */
export function soonestRestartUs(faults: readonly Fault[]): number {
  const restarts = faults.map((fault) => (fault.kind === 'crash' ? fault.restartAfterUs : null));
  return Math.min(...restarts.filter((it) => it !== null));
}

/**
 * Whether a schedule breaks a property as another one does: no assumption is broken that the other keeps, and what two
 * clients do to each other does not become what one does to itself.
 *
 * @param deployment - What of it has to stay. Default: nothing.
 */
export function failsLike(schedule: Schedule, property: PropertyId, deployment: Deployment | null = null): Fails {
  const { violations, assumptionsBroken: allowed } = judge(schedule, [property]);
  const alike = violations.some((it) => it.property === property && isOnesOwn(it)) ? () => true : isOfTwo;
  return (candidate) => {
    if (deployment !== null && !isIn(deployment, candidate)) return false;
    const judgement = judge(candidate, [property]);
    return (
      judgement.violations.some((it) => it.property === property && alike(it)) &&
      judgement.assumptionsBroken.every((it) => allowed.includes(it))
    );
  };
}

function isOnesOwn({ clients }: Violation): boolean {
  return new Set(clients).size < 2;
}

function isOfTwo(violation: Violation): boolean {
  return !isOnesOwn(violation);
}
