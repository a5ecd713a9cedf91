import { assumptions, type Judgement, type Violation } from '../../properties/index.js';
import { oneStepsOf, reduce } from '../../properties/shrinking/reduce.js';
import type { Schedule } from '../../scenarios/index.js';
import { policyOf } from '../../sim/index.js';
import { inMacrotask } from '../host/drain.js';
import { type GuestRun, type GuestRunOptions, replayGuests, replayGuestsAtOnce } from '../run.js';
import type { Subject } from '../session.js';
import { kindOf, type ViolationKind } from './search.js';

/** A failing schedule of a guest, made small. */
export interface ShrunkForGuest {
  readonly schedule: Schedule;
  /** How many schedules were tried. */
  readonly tried: number;
  /** Whether it is known that nothing more can be left out or rounded: the tries sufficed. */
  readonly minimal: boolean;
}

/** Tries of one shrinking: a count, unlike a clock, ends at the same place. */
const MOST_TRIED = 4_000;

/** Whether a schedule lets a client fail in a way: no assumption is broken that is not among the allowed. */
function failsAs(
  subject: Subject,
  kind: ViolationKind,
  from: Schedule,
  options: GuestRunOptions,
): (it: Schedule) => boolean {
  const allowed = assumptions(from, policyOf(from.policy));
  return (schedule) => {
    const broken = assumptions(schedule, policyOf(schedule.policy));
    if (!broken.every((it) => allowed.includes(it))) return false;
    const { violations, uncaught } = replayGuestsAtOnce(subject, schedule, options);
    return uncaught.length === 0 && violations.some((it) => kindOf(it) === kind);
  };
}

/**
 * Makes a failing schedule small: leaves out what can be left out and rounds times, as long as the client fails in the same
 * way. Candidates are drained at once; what comes out is run by documented means, and given up if that differs.
 */
export async function shrinkForGuest(
  subject: Subject,
  schedule: Schedule,
  kind: ViolationKind,
  options: GuestRunOptions = {},
): Promise<ShrunkForGuest> {
  let tried = 0;
  const seen = new Map<string, boolean>();
  const fails = failsAs(subject, kind, schedule, options);
  const failsOnce = (candidate: Schedule): boolean => {
    const key = JSON.stringify(candidate);
    const known = seen.get(key);
    if (known !== undefined || tried >= MOST_TRIED) return known ?? false;
    tried++;
    const failing = fails(candidate);
    seen.set(key, failing);
    return failing;
  };
  const small = await inMacrotask(() => (failsOnce(schedule) ? reduce(schedule, failsOnce) : schedule));
  const check = await replayGuests(subject, small, options);
  const same = check.violations.some((it) => kindOf(it) === kind);
  return same ? { schedule: small, tried, minimal: tried < MOST_TRIED } : { schedule, tried, minimal: false };
}

/** Whether every schedule that is one piece or one figure smaller does not fail in that way. */
export function isMinimalForGuest(
  subject: Subject,
  schedule: Schedule,
  kind: ViolationKind,
  options: GuestRunOptions = {},
): Promise<boolean> {
  const fails = failsAs(subject, kind, schedule, options);
  return inMacrotask(() => {
    for (const step of oneStepsOf(schedule)) if (fails(step)) return false;
    return true;
  });
}

/** A run of guests in the form in which reports take a judgement. */
export function judgementOf(schedule: Schedule, { run, violations }: GuestRun): Judgement {
  const of = (kind: Violation['kind']): 'violated' | 'safe' =>
    violations.some((it) => it.kind === kind) ? 'violated' : 'safe';
  return {
    run,
    violations,
    outages: [],
    verdicts: { belief: of('belief'), state: of('state'), effect: of('effect'), liveness: of('liveness') },
    verdict: violations.length > 0 ? 'violated' : 'safe',
    assumptionsBroken: assumptions(schedule, policyOf(schedule.policy)),
  };
}
