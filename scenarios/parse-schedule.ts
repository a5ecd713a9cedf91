import { scheduleFromFormOne } from './form-1.js';
import { withNamesOfToday } from './old-names.js';
import { parseTextAs, readSchedule } from './read-schedule.js';
import type { Schedule } from './schedule.js';

/**
 * Reads a schedule from plain data, of today's form or of form 1.
 *
 * @returns A copy with its fields in their documented order.
 * @throws {@link ScheduleError} that says what is wrong, where, and what would be right.
 */
export function parseSchedule(value: unknown): Schedule {
  return readSchedule(scheduleFromFormOne(withNamesOfToday(value)));
}

/**
 * Reads a schedule from the text of a file.
 *
 * @param source - What errors call the file.
 * @throws {@link ScheduleError} also for a text that is not JSON, or that was cut off.
 */
export function parseScheduleText(text: string, source: string): Schedule {
  return parseTextAs(text, source, parseSchedule);
}
