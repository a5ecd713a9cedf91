import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findScenario } from '../scenarios/catalogue.js';
import { parseScenarioText, parseScheduleText, type Scenario, type Schedule } from '../scenarios/index.js';
import { FAILURES } from './failure-file.js';
import { readText } from './read-text.js';

const A_FILE = 'a file of a scenario or a schedule';

/** A schedule to run, with the scenario around it if there is one. */
export interface Loaded {
  readonly id: string;
  readonly schedule: Schedule;
  readonly scenario: Scenario | null;
}

/**
 * Finds what a person names: a file, or the id of a scenario of the catalogue or of a found failure.
 *
 * @throws InputError if there is no such thing, or something is wrong with it.
 */
export function loadScenario(name: string, cwd: string): Loaded {
  const looksLikeFile = /[/\\]|\.json$/.test(name);
  const failure = `${FAILURES}/${name}.json`;
  const path = looksLikeFile ? name : existsSync(join(cwd, failure)) ? failure : null;
  if (path !== null) return parse(readText(path, cwd, `${A_FILE}, or an id that list shows`, A_FILE), path);
  const scenario = findScenario(name);
  return { id: scenario.id, schedule: scenario.schedule, scenario };
}

function parse(text: string, path: string): Loaded {
  if (isBareSchedule(text)) return { id: path, schedule: parseScheduleText(text, path), scenario: null };
  const scenario = parseScenarioText(text, path);
  return { id: scenario.id, schedule: scenario.schedule, scenario };
}

/** A text that is neither is read as a scenario, whose parser says what is wrong. */
function isBareSchedule(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text.replace(/^\ufeff/, ''));
    if (typeof value !== 'object' || value === null || !('schema' in value)) return false;
    return typeof value.schema === 'string' && value.schema.startsWith('lockstep.schedule/');
  } catch {
    return false;
  }
}
