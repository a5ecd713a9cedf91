import type { FencingToken } from '../core/index.js';
import { InputError, show } from './input-error.js';
import { nearest } from './nearest.js';
import { isCount } from './plain-data.js';
import type { Fault } from './schedule.js';

/** When the observer says that something happened. */
interface Stamped {
  /** Time of the observer, µs from any origin that all lines share. */
  readonly atUs: number;
  /** How far `atUs` may be off, µs, either way. Left out: 0, for one observer with one monotonic clock. */
  readonly errorUs?: number;
}

/** What each type of line about a lock says beyond that. */
interface Contents {
  readonly acquire: { readonly client: string; readonly resources: readonly string[]; readonly ttlMs: number };
  /** `fencingToken`: where the lock gives one to its owner. */
  readonly acquired: { readonly validUs: number; readonly fencingToken?: FencingToken };
  readonly failed: object;
  readonly unknown: object;
  readonly extend: { readonly ttlMs: number };
  readonly extended: { readonly validUs: number };
  readonly 'not-extended': { readonly validUs: number };
  readonly release: object;
  readonly released: object;
  readonly write: { readonly resource: string };
}

/** What a line about a lock can say. */
type LockLineType = keyof Contents;

/** Type of a line. */
export type HistoryLineType = LockLineType | 'crashed';

/**
 * One line about a lock: a call, its end, or a write to the protected resource. A call is recorded before it is made, its end
 * after it is known. `validUs` is the validity of the lock from then on. A call without an end counts as one that ended `unknown`.
 */
export type LockLine = {
  readonly [T in LockLineType]: Stamped & {
    readonly type: T;
    /** Id of one acquisition, unique in the whole history. */
    readonly lock: string;
  } & Contents[T];
}[LockLineType];

/**
 * The process of a client died, and its holds ended. Another observer than the client may record this. If it only knows that the
 * client was dead by then, `errorUs` is the longest time that it may have been dead.
 */
export interface CrashedLine extends Stamped {
  readonly type: 'crashed';
  readonly client: string;
}

/** One line of a history. */
export type HistoryLine = LockLine | CrashedLine;

/** A fault as it was carried out in a run on real nodes. */
export interface FaultSeen {
  readonly fault: Fault;
  /** `struck` when it began; `back` when the node that it stopped answered again. */
  readonly what: 'struck' | 'back';
  /** Time of the observer, µs from the origin of the history. */
  readonly atUs: number;
}

type Field = 'client' | 'resources' | 'resource' | 'ttlMs' | 'validUs';
const FIELDS: Readonly<Record<HistoryLineType, readonly Field[]>> = {
  acquire: ['client', 'resources', 'ttlMs'],
  acquired: ['validUs'],
  failed: [],
  unknown: [],
  extend: ['ttlMs'],
  extended: ['validUs'],
  'not-extended': ['validUs'],
  release: [],
  released: [],
  write: ['resource'],
  crashed: ['client'],
};

/**
 * Reads one line of a history. Fields that it does not know are left alone, so that recorders can add notes.
 *
 * @param text - The line, without its end.
 * @param number - Its number, from 1, for the error.
 * @throws InputError with the number of the line and what is wrong in it.
 */
export function parseHistoryLine(text: string, number: number): HistoryLine {
  const fail = (problem: string): never => {
    throw new InputError(`line ${number}: ${problem}`);
  };
  const value = parseObject(text, fail);
  const { type } = value;
  if (typeof type !== 'string' || !Object.hasOwn(FIELDS, type)) return fail(wrongType(type));
  const fields = FIELDS[type as HistoryLineType];
  if (type !== 'crashed' && !isName(value.lock))
    fail(`/lock must be a text that names the lock, but it is ${show(value.lock)}`);
  if (!Number.isSafeInteger(value.atUs)) fail(`/atUs must be a whole number of µs, but it is ${show(value.atUs)}`);
  if (value.errorUs !== undefined && !isCount(value.errorUs))
    fail(`/errorUs must be a whole number of µs from 0, but it is ${show(value.errorUs)}`);
  for (const field of fields) {
    const problem = problemOf(field, value[field]);
    if (problem !== null) fail(`/${field} of ${type} must be ${problem}, but it is ${show(value[field])}`);
  }
  if (type === 'acquired' && value.fencingToken !== undefined && !isFencingToken(value.fencingToken))
    fail(
      `/fencingToken of acquired must be {"counter": a whole number from 0, "attempt": a text or null}, but it is ${shown(value.fencingToken)}`,
    );
  return value as unknown as HistoryLine;
}

function parseObject(text: string, fail: (problem: string) => never): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fail('it is not JSON; each line must be one complete JSON object');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return fail(`it must be a JSON object, but it is ${show(value)}`);
  return value as Record<string, unknown>;
}

function wrongType(type: unknown): string {
  const types = Object.keys(FIELDS);
  const near = typeof type === 'string' ? nearest(type, types) : undefined;
  const right =
    near === undefined ? `use ${types.slice(0, -1).join(', ')} or ${types.at(-1)}` : `did you mean "${near}"?`;
  return `/type is ${show(type)}; ${right}`;
}

function problemOf(field: Field, value: unknown): string | null {
  switch (field) {
    case 'client':
    case 'resource':
      return isName(value) ? null : 'a text that is not empty';
    case 'resources':
      return Array.isArray(value) && value.length > 0 && value.every(isName) ? null : 'a list of at least one resource';
    case 'ttlMs':
      return isCount(value) && value > 0 ? null : 'a whole number of ms from 1';
    case 'validUs':
      return isCount(value) ? null : 'a whole number of µs from 0';
  }
}

function isFencingToken(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { counter, attempt } = value as Record<string, unknown>;
  return isCount(counter) && (attempt === null || isName(attempt));
}

/** An object with what is in it, which {@link show} leaves out. */
function shown(value: unknown): string {
  if (typeof value !== 'object' || value === null) return show(value);
  const { counter, attempt } = value as Record<string, unknown>;
  return `{"counter": ${show(counter)}, "attempt": ${show(attempt)}}`;
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
