import { layOut } from './json-layout.js';
import { readSchedule } from './read-schedule.js';
import type { Schedule } from './schedule.js';

/**
 * The text of a schedule's file: fields in their documented order, a fault or a fate a line. Equal schedules have equal
 * texts. It is read back before it is returned, so that nothing is written that could not be replayed.
 *
 * @throws {@link ScheduleError} if the schedule is not valid.
 */
export function formatSchedule(schedule: Schedule): string {
  return layOut(readSchedule(schedule));
}
