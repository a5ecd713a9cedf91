import { applyPatch } from 'rfc6902';
import { pointer, ScheduleError, show } from './input-error.js';
import { meant } from './nearest.js';
import { parseSchedule } from './parse-schedule.js';
import type { Change } from './scenario.js';
import type { Schedule } from './schedule.js';

/**
 * A copy of `schedule` with the changes made in order (JSON Patch, RFC 6902). What comes out is a valid schedule again.
 *
 * @param base - Where the changes are, for errors about them: JSON pointer to their list.
 * @throws {@link ScheduleError} if a place does not exist, or if the result is not a schedule.
 */
export function applyChanges(schedule: Schedule, changes: readonly Change[], base = ''): Schedule {
  const changed: unknown = structuredClone(schedule);
  for (const [index, change] of changes.entries()) {
    // The library takes some places that do not exist (index "x" of a list), and says little about the others.
    const problem = missingPlace(changed, change);
    if (problem !== undefined) throw new ScheduleError(pointer(base, index, 'path'), problem);
    const [error] = applyPatch(changed, [{ ...change }]);
    if (error) throw new ScheduleError(pointer(base, index), `cannot be made: ${error.message}`);
  }
  try {
    return parseSchedule(changed);
  } catch (error) {
    if (!(error instanceof ScheduleError)) throw error;
    throw new ScheduleError(base, `the changed schedule is wrong at ${error.path || 'the top'}: ${error.problem}`);
  }
}

/** Why the place of a change cannot be changed; `undefined` if it can. */
function missingPlace(root: unknown, { op, path }: Change): string | undefined {
  const keys = path
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (keys.length === 0 || !path.startsWith('/')) return `${show(path)} is not a place inside the schedule`;
  let value = root;
  for (const [depth, key] of keys.entries()) {
    const last = depth === keys.length - 1;
    const problem = missingKey(value, key, last && op === 'add');
    const parent = depth === 0 ? 'the schedule' : pointer('', ...keys.slice(0, depth));
    if (problem !== undefined) return `${show(path)} does not exist: ${parent} ${problem}`;
    value = Reflect.get(Object(value), key);
  }
  return undefined;
}

function missingKey(parent: unknown, key: string, adding: boolean): string | undefined {
  if (Array.isArray(parent)) {
    const most = adding ? parent.length : parent.length - 1;
    if (adding && key === '-') return undefined;
    if (/^(0|[1-9]\d*)$/.test(key) && Number(key) <= most) return undefined;
    const places = parent.length === 0 ? 'is an empty list' : `has the places 0 to ${parent.length - 1}`;
    return `${places}${adding ? '; add at "-", its end' : ''}`;
  }
  if (typeof parent !== 'object' || parent === null) return `is ${show(parent)}, with nothing inside`;
  if (Object.hasOwn(parent, key) || (adding && key !== '__proto__')) return undefined;
  return `has no ${show(key)}; ${meant(key, Object.keys(parent), 'it has')}`;
}
