import { printable } from '../text/printable.js';

/** No sentence is longer, characters; what is longer has lost its middle. */
const LONGEST_MESSAGE = 600;
const LONGEST_SOURCE = 160;
const LONGEST_POINTER = 120;
const LONGEST_PROBLEM = 300;

/**
 * Something that a person wrote is wrong. The message is one sentence for them: what is wrong, where, and what would be
 * right. It is printable, whatever they wrote, and shown as it is, without a stack trace.
 */
export class InputError extends Error {
  override readonly name: string = 'InputError';

  constructor(message: string, options?: ErrorOptions) {
    super(printable(message, LONGEST_MESSAGE), options);
  }
}

/** A schedule or scenario is wrong in one place. */
export class ScheduleError extends InputError {
  override readonly name: string = 'ScheduleError';
  /** JSON pointer (RFC 6901) to what is wrong; empty for the whole value. */
  readonly path: string;
  /** The sentence without its place. */
  readonly problem: string;

  /**
   * @param path - JSON pointer to what is wrong.
   * @param problem - What is wrong there, and what would be right.
   * @param source - Name of the file, where there is one.
   */
  constructor(path: string, problem: string, source?: string) {
    const parts = [printable(source ?? '', LONGEST_SOURCE), printable(path, LONGEST_POINTER)];
    super([...parts, printable(problem, LONGEST_PROBLEM)].filter((part) => part !== '').join(': '));
    this.path = path;
    this.problem = problem;
  }
}

/** JSON pointer of `keys` below `base`. */
export function pointer(base: string, ...keys: readonly PropertyKey[]): string {
  return base + keys.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

const LONGEST_SHOWN = 42;

/** A value as an error message quotes it. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'number' || value === undefined) return String(value);
  return printable(JSON.stringify(value) ?? String(value), LONGEST_SHOWN);
}
