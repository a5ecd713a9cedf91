import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isClientFailure, parseClientFailure, replayOf } from '../libraries/failure-file.js';
import { findScenario } from '../scenarios/catalogue.js';
import { parseScenarioText, parseScheduleText, type Scenario, type Schedule } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { FAILURES } from './failure-file.js';
import { readText } from './read-text.js';
import { amongReports, besideFile } from './report-file.js';

const A_FILE = 'a file of a scenario or a schedule';

/** A schedule to run, with the scenario around it if there is one. */
export interface Loaded {
  readonly id: string;
  readonly schedule: Schedule;
  readonly scenario: Scenario | null;
  /** Where its report goes. */
  readonly report: string;
}

/**
 * Finds what a person names: a file, or the id of a scenario of the catalogue or of a found failure.
 *
 * @param command - How a person calls `lockstep`, for what is to be run instead.
 * @throws InputError if there is no such thing, or something is wrong with it, or if it is a failure of another client.
 */
export function loadScenario(name: string, cwd: string, command = 'lockstep'): Loaded {
  const looksLikeFile = /[/\\]|\.json$/.test(name);
  const failure = `${FAILURES}/${name}.json`;
  const path = looksLikeFile ? name : existsSync(join(cwd, failure)) ? failure : null;
  if (path !== null) return parse(readText(path, cwd, `${A_FILE}, or an id that list shows`, A_FILE), path, command);
  const scenario = findScenario(name);
  return loadedOf(scenario);
}

function loadedOf(scenario: Scenario): Loaded {
  return { id: scenario.id, schedule: scenario.schedule, scenario, report: amongReports(scenario.id) };
}

function parse(text: string, path: string, command: string): Loaded {
  const value = peek(text);
  if (isClientFailure(value)) throw ofAClient(text, path, command);
  if (isBareSchedule(value))
    return { id: path, schedule: parseScheduleText(text, path), scenario: null, report: besideFile(path) };
  return loadedOf(parseScenarioText(text, path));
}

/** A text that is neither is read as a scenario, whose parser says what is wrong. */
function isBareSchedule(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('schema' in value)) return false;
  return typeof value.schema === 'string' && value.schema.startsWith('lockstep.schedule/');
}

/** The lock of this project does well where that client failed: to say so would pass for a verdict on the client. */
function ofAClient(text: string, path: string, command: string): InputError {
  const failure = parseClientFailure(text, path);
  const { client } = failure;
  const again = replayOf(failure, path, command);
  const whose = client.from === 'test' ? 'the client of a test' : client.name;
  const what = client.from === 'test' ? `let that test call ${again}` : `run ${again}`;
  return new InputError(`${path}: it was recorded with ${whose}, and here runs the lock of Lockstep; ${what}`);
}

function peek(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''));
  } catch {
    return null;
  }
}
