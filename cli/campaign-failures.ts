import { type CampaignPart, isLibrary } from '../campaign/index.js';
import { kindOf } from '../libraries/search/kinds.js';
import { judge } from '../properties/index.js';
import { preventions, tellingOf, violationSentence } from '../report/index.js';
import { failureScenario, writeFailure, writeLibraryFailure } from './failure-file.js';
import type { Io } from './io.js';
import { clientOf } from './library-names.js';

/**
 * Writes each failure of a campaign: as a scenario, which replays; that of a library as a schedule for it. `path` is
 * `null` for one that could not be written, which has been said.
 */
export function writeFailuresOf(
  { spec, failures }: CampaignPart,
  io: Io,
): { readonly path: string | null; readonly shape: string }[] {
  return failures.flatMap(({ shape, property, search, run, schedule, events }) => {
    const plan = spec.searches[search]?.plan;
    if (plan !== undefined && isLibrary(plan)) {
      // Another search of the same library may have one in the same run.
      const id = `${plan.library.id}-${plan.faults.id}-${property}-${run + 1}`.replace(/[^\w.-]+/g, '-');
      const { faults, library } = plan;
      const failure = {
        client: clientOf(library, io.cwd),
        kind: kindOf({ property }),
        extending: faults.extendsItself ?? false,
        schedule,
      };
      return [{ path: writeLibraryFailure(failure, id, io), shape }];
    }
    const judgement = judge(schedule, [property], true);
    const violation = judgement.violations.find((it) => it.property === property);
    if (violation === undefined) return [];
    const counterexample = {
      property,
      kind: violation.kind,
      run,
      found: schedule,
      schedule,
      violation,
      foundEvents: events,
      events,
      hash: judgement.run.hash,
      assumptionsBroken: judgement.assumptionsBroken,
      explained: [],
    };
    const sentence = violationSentence(violation, tellingOf(schedule, judgement));
    const seed = plan?.seed ?? '';
    const prevented = preventions(schedule, [property]);
    const scenario = failureScenario({ counterexample, judgement, seed, sentence, preventions: prevented });
    return [{ path: writeFailure(scenario, io), shape }];
  });
}
