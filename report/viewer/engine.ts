/*
 * What runs schedules in the page. It is a bundle of its own, which the viewer starts when there is something to run:
 * a reader who only looks does not need it.
 */
import { mitigate, type PropertyId, type Schedule } from '../../scenarios/index.js';
import { type Watched, watch } from '../lock-states.js';
import { type RunSnapshot, snapshotOf } from '../run-snapshot.js';

/** A run that was made in the page. */
export interface Rerun {
  readonly schedule: Schedule;
  readonly taken: RunSnapshot;
  readonly hash: string;
  readonly stepAt: Watched['stepAt'];
}

/**
 * Runs a schedule with mitigations in place.
 *
 * @throws {@link InputError} if one of them makes no sense.
 */
export function run(written: Schedule, settings: readonly string[], also: readonly PropertyId[]): Rerun {
  const schedule = settings.reduce(mitigate, written);
  const { judgement, stepAt } = watch(schedule, also);
  return { schedule, taken: snapshotOf(schedule, judgement), hash: judgement.run.hash, stepAt };
}

export { MITIGATIONS } from '../../scenarios/index.js';
