import { checkScenario } from './checks.js';
import { scenarioFromFormOne, variantsFromFormOne } from './form-1.js';
import { withNamesOfToday } from './old-names.js';
import { readAs } from './read-as.js';
import { parseTextAs, withSortedDeviations } from './read-schedule.js';
import type { Scenario } from './scenario.js';
import { scenarioGrammar } from './scenario-grammar.js';

/**
 * Reads a scenario from plain data. Its variants are read, not applied: {@link variantSchedule} does that.
 *
 * @throws {@link ScheduleError} that says what is wrong, where, and what would be right.
 */
export function parseScenario(value: unknown): Scenario {
  const today = withNamesOfToday(value);
  const scenario = readAs(scenarioGrammar, scenarioFromFormOne(today));
  checkScenario(scenario);
  return variantsFromFormOne({ ...scenario, schedule: withSortedDeviations(scenario.schedule) }, today);
}

/**
 * Reads a scenario from the text of a file.
 *
 * @param source - What errors call the file.
 * @throws {@link ScheduleError} also for a text that is not JSON, or that was cut off.
 */
export function parseScenarioText(text: string, source: string): Scenario {
  return parseTextAs(text, source, parseScenario);
}
