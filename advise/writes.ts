import { localTime } from '../core/index.js';
import { deviationNumber, driftAllowanceUs, type Policy } from '../deviations/index.js';
import { judge } from '../properties/judge.js';
import type { Fault, Schedule, WritePlan } from '../scenarios/index.js';
import { unreached } from '../scenarios/plain.js';
import { alone, EXACT } from '../search/safety-map/adversary.js';
import { greatest } from '../search/safety-map/bisect.js';
import { observeRun } from '../search/safety-map/watch.js';
import { Clock, nodeName, trueTime } from '../sim/index.js';
import { countsCutStamps, onceOf, type Stress } from './attacks.js';

/** What may come between the last look at a lock and the arrival of a write, all at once, µs. */
export interface Way {
  /** How long the process stops. */
  readonly processUs: number;
  /** How long its machine sleeps, where the clock of the client counts a sleep. */
  readonly sleepUs: number;
  /** What the write takes from the client to the resource. */
  readonly writeUs: number;
}

/** All of a way, µs. */
export function wholeUs({ processUs, sleepUs, writeUs }: Way): number {
  return processUs + sleepUs + writeUs;
}

/** A write of the holder: it looks at what is left of its lock as late as it can, or writes at the end of its work. */
export type Write =
  | { readonly kind: 'guarded'; readonly guardUs: number; readonly way: Way }
  | { readonly kind: 'unguarded'; readonly workUs: number; readonly way: Way };

/** The run of a holder alone that writes, with a fast clock, the worst for it; `null` if there is never enough left. */
export function writeSchedule(described: Stress, write: Write): Schedule | null {
  const stress = withMostSilent(described);
  if (write.kind === 'unguarded') return stopped(stress, { checkAfterUs: write.workUs, guardUs: null }, write.way);
  const { guardUs, way } = write;
  const look = cutsStamps(stress.policy) ? lastLookTried(stress, guardUs) : lastLookUs(stress, guardUs);
  // A fast clock may pass over that microsecond, and then finds too little left.
  for (const us of [look, look - 1, look - 2].filter((at) => at >= 0)) {
    if (observeRun(writing(stress, { checkAfterUs: us, guardUs, sendAfterUs: us, delayUs: 0 })).writes > 0)
      return stopped(stress, { checkAfterUs: us, guardUs }, way);
  }
  return null;
}

/** A timer that is due so long after a look has passed at least 1 µs of true time. */
const AT_ONCE_US = 2;

/** The write that is looked at then: its writer stops right after the look, and sends as it goes on. */
function stopped(stress: Stress, look: Pick<WritePlan, 'checkAfterUs' | 'guardUs'>, way: Way): Schedule {
  const { processUs, sleepUs, writeUs } = way;
  const { checkAfterUs } = look;
  const plan = { ...look, sendAfterUs: checkAfterUs, delayUs: writeUs };
  if (processUs + sleepUs <= AT_ONCE_US) return writing(stress, { ...plan, delayUs: wholeUs(way) });
  const clock = new Clock(0, stress.driftPpm);
  const claimedUs = trueTime(claimUs(stress));
  const atUs = clock.when(localTime(clock.read(claimedUs) + checkAfterUs), claimedUs);
  const faults: Fault[] = [];
  if (processUs > 0) faults.push({ kind: 'pause', atUs, edge: 'after', process: 'c1', forUs: processUs });
  // One machine does one thing at a time: it falls asleep before a process goes on that had stopped.
  const edge = processUs > 0 ? 'before' : 'after';
  if (sleepUs > 0) faults.push({ kind: 'suspend', atUs: atUs + processUs, edge, process: 'c1', forUs: sleepUs });
  return writing(stress, { ...plan, sendAfterUs: checkAfterUs + AT_ONCE_US }, faults);
}

/** Whether the write reaches the resource when its writer does not hold the lock any more. */
export function isLate(schedule: Schedule | null): boolean {
  if (schedule === null) return false;
  return judge(schedule).violations.some(({ property }) => property === 'no-stale-write');
}

/** Whether the holder gets the lock at all. */
export function isHad(stress: Stress): boolean {
  return observeRun(calm(stress)).claims.length > 0;
}

/** With as many silent nodes as the holder can do without: the later it has its lock, the less is left of it. */
function withMostSilent(stress: Stress): Stress {
  const { silent = 0 } = stress;
  return silent === 0 || isHad(stress) ? stress : withMostSilent({ ...stress, silent: silent - 1 });
}

/** From the claim to the last instant at which that much is left, by the holder's clock. */
function lastLookUs(stress: Stress, guardUs: number): number {
  const ttlUs = 1000 * stress.ttlMs;
  return ttlUs - driftAllowanceUs(stress.policy, ttlUs) - acquiredAfterUs(stress) - Math.max(1, guardUs);
}

/** Whether a client goes by time stamps that are cut. */
function cutsStamps(policy: Policy): boolean {
  return countsCutStamps(policy) || (deviationNumber(policy, 'deadline-stamps-us') ?? 1) > 1;
}

/** The same, found by trying: cut time stamps may leave a little more. `-1` if there is never enough. */
function lastLookTried(stress: Stress, guardUs: number): number {
  const writes = (us: number): boolean =>
    observeRun(writing(stress, { checkAfterUs: us, guardUs, sendAfterUs: us, delayUs: 0 })).writes > 0;
  return writes(0) ? greatest(0, 2000 * stress.ttlMs, writes) : -1;
}

/** What the votes take by the holder's fast clock. */
function acquiredAfterUs(stress: Stress): number {
  return Math.floor(claimUs(stress) * (1 + stress.driftPpm / 1_000_000));
}

/** When the holder has its lock, true time. */
function claimUs(stress: Stress): number {
  return observeRun(calm(stress)).claims[0]?.atUs ?? 0;
}

function calm(stress: Stress, writes: readonly WritePlan[] = [], faults: readonly Fault[] = []): Schedule {
  const { policy, ttlMs, latencyUs, nodes, driftPpm, silent = 0 } = stress;
  // The first ones, since a client that asks in turn waits for them before it asks the others.
  const silentNodes = Array.from({ length: silent }, (_, i) => nodeName(i));
  return alone({
    ttlMs,
    delayUs: latencyUs,
    nodes,
    grain: EXACT,
    policy: onceOf(policy),
    clientPpm: driftPpm,
    holder: { writes },
    faults,
    fates: unreached('c1', ...silentNodes),
  });
}

function writing(stress: Stress, plan: WritePlan, faults: readonly Fault[] = []): Schedule {
  const schedule = calm(stress, [plan], faults);
  const stopsUs = faults.reduce((sum, it) => sum + ('forUs' in it ? it.forUs : 0), 0);
  const lastUs = 2000 * stress.ttlMs + plan.sendAfterUs + stopsUs + plan.delayUs;
  return { ...schedule, untilUs: Math.max(schedule.untilUs, lastUs) };
}
