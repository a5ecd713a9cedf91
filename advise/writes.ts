import { driftAllowanceUs } from '../deviations/index.js';
import { judge } from '../properties/judge.js';
import type { Schedule, WritePlan } from '../scenarios/index.js';
import { alone, EXACT } from '../search/safety-map/adversary.js';
import { greatest } from '../search/safety-map/bisect.js';
import { observeRun } from '../search/safety-map/watch.js';
import { countsCutStamps, playedPolicy, type Stress } from './attacks.js';

/** A write of the holder: it looks at what is left of its lock as late as it can, or writes at the end of its work. */
export type Write =
  | { readonly kind: 'guarded'; readonly guardUs: number; readonly pauseUs: number }
  | { readonly kind: 'unguarded'; readonly workUs: number; readonly pauseUs: number };

/** The run of a holder alone that writes, with a fast clock, the worst for it; `null` if there is never enough left. */
export function writeSchedule(stress: Stress, write: Write): Schedule | null {
  if (write.kind === 'unguarded') {
    const { workUs } = write;
    const plan = { checkAfterUs: workUs, guardUs: null, sendAfterUs: workUs, delayUs: write.pauseUs };
    return writing(stress, plan);
  }
  const { guardUs, pauseUs } = write;
  const look = countsCutStamps(stress.policy) ? lastLookTried(stress, guardUs) : lastLookUs(stress, guardUs);
  // A fast clock may pass over that microsecond, and then finds too little left.
  for (const us of [look, look - 1, look - 2].filter((at) => at >= 0)) {
    const plan = { checkAfterUs: us, guardUs, sendAfterUs: us, delayUs: pauseUs };
    if (observeRun(writing(stress, { ...plan, delayUs: 0 })).writes > 0) return writing(stress, plan);
  }
  return null;
}

/** Whether the write reaches the resource when its writer does not hold the lock any more. */
export function isLate(schedule: Schedule | null): boolean {
  if (schedule === null) return false;
  return judge(schedule).violations.some(({ property }) => property === 'action-in-belief');
}

/** Whether the holder gets the lock at all. */
export function isHad(stress: Stress): boolean {
  return observeRun(calm(stress)).claims.length > 0;
}

/** From the claim to the last instant at which that much is left, by the holder's clock. */
function lastLookUs(stress: Stress, guardUs: number): number {
  const ttlUs = 1000 * stress.ttlMs;
  return ttlUs - driftAllowanceUs(stress.policy, ttlUs) - acquiredAfterUs(stress) - Math.max(1, guardUs);
}

/** The same, found by trying: cut time stamps may leave a little more. `-1` if there is never enough. */
function lastLookTried(stress: Stress, guardUs: number): number {
  const writes = (us: number): boolean =>
    observeRun(writing(stress, { checkAfterUs: us, guardUs, sendAfterUs: us, delayUs: 0 })).writes > 0;
  return writes(0) ? greatest(0, 2000 * stress.ttlMs, writes) : -1;
}

/** What the votes take by the holder's fast clock. */
function acquiredAfterUs(stress: Stress): number {
  const claimed = observeRun(calm(stress)).claims[0]?.atUs ?? 0;
  return Math.floor(claimed * (1 + stress.driftPpm / 1_000_000));
}

function calm(stress: Stress, writes: readonly WritePlan[] = []): Schedule {
  const { ttlMs, latencyUs, nodes, driftPpm } = stress;
  const policy = playedPolicy({ ...stress, votes: nodes });
  return alone({
    ttlMs,
    delayUs: latencyUs,
    nodes,
    votes: nodes,
    grain: EXACT,
    policy,
    clientPpm: driftPpm,
    holder: { writes },
  });
}

function writing(stress: Stress, plan: WritePlan): Schedule {
  const schedule = calm(stress, [plan]);
  return { ...schedule, untilUs: Math.max(schedule.untilUs, 2000 * stress.ttlMs + plan.delayUs + plan.sendAfterUs) };
}
