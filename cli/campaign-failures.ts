import type { CampaignPart } from '../campaign/index.js';
import { judge } from '../properties/index.js';
import { preventions, tellingOf, violationSentence } from '../report/index.js';
import { failureScenario, writeFailure } from './failure-file.js';

/** Writes each failure of a campaign as a scenario, which replays. */
export function writeFailuresOf(
  { spec, failures }: CampaignPart,
  cwd: string,
): { readonly path: string; readonly shape: string }[] {
  return failures.flatMap(({ shape, property, search, run, schedule, events }) => {
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
    const seed = spec.searches[search]?.plan.seed ?? '';
    const prevented = preventions(schedule, [property]);
    const scenario = failureScenario({ counterexample, judgement, seed, sentence, preventions: prevented });
    return [{ path: writeFailure(scenario, cwd), shape }];
  });
}
