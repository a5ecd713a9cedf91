import { judge } from '../../../properties/judge.js';
import type { PropertyId, Schedule, Verdict } from '../../../scenarios/index.js';
import { InputError } from '../../../scenarios/input-error.js';
import { mitigate } from '../../../scenarios/mitigations.js';
import { Observer, ScriptedAdversary, setupOf, World } from '../../../sim/index.js';
import { formatCount } from '../../../text/format.js';
import { watch } from '../../lock-states.js';
import { sceneOf } from '../../picture/scene.js';
import { candidates } from '../../prevention.js';
import { snapshotOf } from '../../run-snapshot.js';
import type { Opened } from '../../viewer/model.js';

/** A schedule on the page, with what is said of it. */
export interface Shown {
  readonly schedule: Schedule;
  /** `S03`; empty for one that has no name. */
  readonly id: string;
  readonly title: string;
  readonly story: string;
  /** Mitigations that its catalogue names. */
  readonly flips: readonly string[];
  /** Properties that count besides those of every schedule. */
  readonly also: readonly PropertyId[];
  /** Whether a search has run it, so that it ends soon. Default: no. */
  readonly isShort?: boolean;
}

/** More events than these take too long in a page. */
const MOST_EVENTS = 200_000;

/**
 * Runs a schedule with mitigations in place.
 *
 * @throws {@link InputError} if a mitigation makes no sense, or the run is too long for a page.
 */
export function opened({ schedule: written, also, isShort = false }: Shown, settings: readonly string[]): Opened {
  const schedule = settings.reduce(mitigate, written);
  if (!isShort || settings.length > 0) refuseEndless(schedule);
  const { judgement, stepAt } = watch(schedule, also);
  const taken = snapshotOf(schedule, judgement);
  return { scene: sceneOf(schedule, taken), verdict: taken.verdict, hash: judgement.run.hash, stepAt, settings };
}

function refuseEndless(schedule: Schedule): void {
  const world = new World(setupOf(schedule), new ScriptedAdversary(schedule), new Observer(), false);
  world.begin();
  while (world.events <= MOST_EVENTS) if (!world.advance()) return;
  throw new InputError(
    `this run has more than ${formatCount(MOST_EVENTS)} events; lockstep replay shows it, a page does not`,
  );
}

/** A mitigation, with what the same schedule comes to with it. */
export interface Tried {
  readonly mitigation: string;
  readonly verdict: Verdict;
}

/** What is worth trying on a schedule, each tried by itself. */
export function triedOn({ schedule, flips, also, isShort = false }: Shown): Tried[] {
  return [...new Set([...flips, ...candidates(schedule)])].flatMap((mitigation): Tried[] => {
    try {
      const changed = mitigate(schedule, mitigation);
      if (JSON.stringify(changed) === JSON.stringify(schedule)) return [];
      if (!isShort) refuseEndless(changed);
      return [{ mitigation, verdict: judge(changed, also).verdict }];
    } catch {
      return [];
    }
  });
}
