import { judgedProperties } from '../properties/expectation.js';
import type { Judgement } from '../properties/index.js';
import type { PropertyId, Scenario, Schedule } from '../scenarios/index.js';
import { counterfactual, likelihood } from './futures.js';
import type { Payload } from './payload.js';
import { candidates } from './prevention.js';
import { takenOf } from './taken.js';

/** Events of a run that a report carries; a longer one is in its schedule, from which the page makes it. */
const MOST_CARRIED = 2_000;

/** What a report is written of. */
export interface ReportInput {
  readonly id: string;
  readonly schedule: Schedule;
  readonly scenario: Scenario | null;
  readonly judgement: Judgement;
  /** The command that shows the run again. */
  readonly replay: string;
}

/** What an HTML report of a schedule carries. */
export function payloadOf({ id, schedule, scenario, judgement, replay }: ReportInput): Payload {
  const mitigations = offered(schedule, scenario);
  const taken = takenOf(schedule, judgement);
  return {
    schema: 'lockstep.report/2',
    id,
    title: scenario?.title ?? 'a schedule',
    story: scenario?.story ?? '',
    replay,
    schedule,
    hash: judgement.run.hash,
    taken: taken.events.length <= MOST_CARRIED ? taken : null,
    source: { kind: 'schedule', also: alsoJudged(scenario), mitigations },
    likelihood: likelihood(schedule, judgement),
    counterfactual: counterfactual(schedule, judgement, mitigations),
  };
}

function alsoJudged(scenario: Scenario | null): PropertyId[] {
  return scenario === null ? [] : judgedProperties(scenario.expect);
}

/** Those that the scenario knows to flip its verdict, then those that have to do with what is in the schedule. */
function offered(schedule: Schedule, scenario: Scenario | null): string[] {
  const flips = (scenario?.flips ?? []).flatMap((flip) => (flip.with === undefined ? [] : [flip.with]));
  return [...new Set([...flips, ...candidates(schedule)])];
}
