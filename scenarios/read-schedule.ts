import { inOrder } from '../deviations/index.js';
import { checkSchedule } from './checks.js';
import { scheduleGrammar } from './grammar.js';
import { ScheduleError } from './input-error.js';
import { jsonFault } from './json-text.js';
import { readAs } from './read-as.js';
import type { Schedule } from './schedule.js';

/**
 * Reads a schedule of today's form from plain data.
 *
 * @returns A copy with its fields in their documented order.
 * @throws {@link ScheduleError} that says what is wrong, where, and what would be right.
 */
export function readSchedule(value: unknown): Schedule {
  const schedule = readAs(scheduleGrammar, value);
  checkSchedule(schedule);
  return withSortedDeviations(schedule);
}

/** The same with its deviations in order. They are a set: those that are equal are written in one way. */
export function withSortedDeviations(schedule: Schedule): Schedule {
  const { deviations } = schedule.policy;
  return deviations === undefined
    ? schedule
    : { ...schedule, policy: { ...schedule.policy, deviations: inOrder(deviations) } };
}

/** Reads the text of a JSON file; errors name the file. */
export function parseTextAs<T>(text: string, source: string, parse: (value: unknown) => T): T {
  try {
    return parse(json(text));
  } catch (error) {
    throw error instanceof ScheduleError ? new ScheduleError(error.path, error.problem, source) : error;
  }
}

function json(text: string): unknown {
  // Some editors on Windows put a byte order mark first.
  const body = text.startsWith('\ufeff') ? text.slice(1) : text;
  if (body.trim() === '') throw new ScheduleError('', 'the file is empty; it must be one JSON object');
  try {
    return JSON.parse(body);
  } catch {
    const { line, column, ended } = jsonFault(body);
    const problem = ended
      ? `the file ends too early, at line ${line}, column ${column}; it must be one complete JSON object`
      : `not JSON from line ${line}, column ${column} on; it must be one JSON object`;
    throw new ScheduleError('', problem);
  }
}
