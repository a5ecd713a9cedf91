import { type CampaignSpec, isLibrary } from '../campaign/index.js';
import type { Failure } from '../campaign/unit.js';
import { REPLAY } from '../libraries/test-library.js';
import { judge } from '../properties/index.js';
import { formatCounterexample, preventions } from '../report/index.js';

/** A failure as text: who, when, why, and what prevents it. */
export function failureText({ property, schedule, search, run, events, text }: Failure, spec: CampaignSpec): string {
  if (text !== undefined)
    return text.replace(REPLAY, `lockstep libraries --replay <the schedule> --only ${libraryOf(spec, search)}`);
  const judgement = judge(schedule, [property], true);
  const violation = judgement.violations.find((it) => it.property === property);
  if (violation === undefined) return 'It does not reproduce with this build.\n';
  return formatCounterexample({
    schedule,
    judgement,
    violation,
    run,
    runs: null,
    seed: spec.searches[search]?.plan.seed ?? '',
    foundEvents: events,
    events,
    preventions: preventions(schedule, [property]),
    replay: 'lockstep replay <the schedule>',
  });
}

function libraryOf({ searches }: CampaignSpec, search: number): string {
  const plan = searches[search]?.plan;
  return plan !== undefined && isLibrary(plan) ? plan.library.id : '';
}
