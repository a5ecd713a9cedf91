import type { z } from 'zod';
import { pointer, ScheduleError } from './input-error.js';

/**
 * What a grammar makes of plain data, or the first thing that is wrong with it.
 *
 * @param base - Where the data is, for errors: JSON pointer.
 */
export function readAs<T>(grammar: z.ZodType<T>, value: unknown, base = ''): T {
  const result = grammar.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues;
  // What is another kind of file is wrong everywhere; and a mistyped field is missing under its right name as well.
  const issue =
    issues.find(({ path }) => path.length === 1 && path[0] === 'schema') ??
    issues.find(({ code }) => code === 'unrecognized_keys') ??
    issues[0];
  const keys = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  throw new ScheduleError(pointer(base, ...(issue?.path ?? []), ...keys), issue?.message ?? 'not readable');
}
