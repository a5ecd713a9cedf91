import type { PolicyChange } from '../../deviations/index.js';
import {
  type Fate,
  type Fault,
  type LockPlan,
  parseSchedule,
  plainCluster,
  plainLock,
  type ResourceGuard,
  type Schedule,
} from '../../scenarios/index.js';

export { unreached } from '../../scenarios/plain.js';

import { type ClientView, simulate, type TraceEvent, type TraceKind } from '../index.js';

/** What a test says about a schedule; the rest is five perfect nodes, 1 ms away, and the reference policy. */
export interface Parts {
  readonly cluster?: Partial<Schedule['cluster']>;
  readonly policy?: PolicyChange;
  /** Locks of `c1`, `c2`, … */
  readonly locks?: readonly (readonly LockPlan[])[];
  /** What `c1`, `c2`, … know of the cluster. */
  readonly views?: readonly ClientView[];
  readonly faults?: readonly Fault[];
  readonly fates?: readonly Fate[];
  readonly resource?: ResourceGuard;
  readonly untilUs?: number;
}

/** A valid schedule. */
export function schedule(parts: Parts = {}): Schedule {
  return parseSchedule({
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(5, parts.cluster),
    policy: { profile: 'reference', ...parts.policy },
    clients: (parts.locks ?? [[lock(0)]]).map((locks, i) => ({ id: `c${i + 1}`, ...parts.views?.[i], locks })),
    faults: parts.faults ?? [],
    fates: parts.fates ?? [],
    resource: parts.resource ?? 'none',
    untilUs: parts.untilUs ?? 30_000_000,
  });
}

/** A lock on `a` for 10 s that is never released. */
export function lock(atUs: number, fields: Partial<LockPlan> = {}): LockPlan {
  return plainLock(atUs, 10_000, fields);
}

/** What a run did, of the kinds asked for: `<µs> <process> <kind>`. */
export function story(parts: Parts, ...kinds: readonly TraceKind[]): string[] {
  return trace(parts)
    .filter((event) => kinds.includes(event.kind))
    .map(({ atUs, process, kind }) => `${atUs} ${process} ${kind}`);
}

/** All that happened in a run. */
export function trace(parts: Parts): readonly TraceEvent[] {
  return simulate(schedule(parts), { trace: true }).trace;
}
