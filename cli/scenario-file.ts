import { existsSync, readFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { findScenario } from '../scenarios/catalogue.js';
import { InputError, parseScenarioText, parseScheduleText, type Scenario, type Schedule } from '../scenarios/index.js';
import { FAILURES } from './failure-file.js';

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
  if (path !== null) return parse(read(path, cwd), path);
  const scenario = findScenario(name);
  return { id: scenario.id, schedule: scenario.schedule, scenario };
}

function read(path: string, cwd: string): string {
  try {
    return readFileSync(isAbsolute(path) ? path : join(cwd, path), 'utf8');
  } catch (error) {
    throw new InputError(`${path}: ${reason(error)}`);
  }
}

function reason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  switch (code) {
    case 'ENOENT':
      return 'there is no such file; give a file of a scenario or a schedule, or an id that list shows';
    case 'EISDIR':
      return 'it is a folder; give a file of a scenario or a schedule';
    case 'EACCES':
    case 'EPERM':
      return 'it may not be read; check its permissions';
    default:
      return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
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
