import { layOut } from './json-layout.js';
import { parseScenario } from './parse.js';
import type { Scenario } from './scenario.js';

/**
 * The text of a scenario's file, laid out as `formatSchedule` does it.
 *
 * @throws {@link ScheduleError} if the scenario is not valid.
 */
export function formatScenario(scenario: Scenario): string {
  return layOut(parseScenario(scenario));
}
