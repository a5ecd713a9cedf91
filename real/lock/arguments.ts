import { COUNTER_KEYS } from '../../core/index.js';
import { configError, LockError } from './errors.js';

/** What a script on a node, and a string, can still carry. */
const MOST_RESOURCES = 1000;
const MOST_CHARACTERS = 1_048_576;
const LONGEST_SHOWN = 60;

/** A value as an error says it, in one line. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, LONGEST_SHOWN));
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value).slice(0, LONGEST_SHOWN);
  return isRecord(value) ? 'an object' : 'a list';
}

/** Whether something is an object and no list. */
export function isRecord(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return !Array.isArray(value);
  } catch {
    // A revoked proxy is neither.
    return true;
  }
}

/** What `read` returns; what cannot be read, such as a revoked proxy, is a mistake like any other. */
export function readable<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof LockError) throw cause;
    throw configError(`${what} cannot be read.`, 'configure', cause);
  }
}

/**
 * The resources of a lock, each once.
 *
 * @throws LockError `ERR_LOCK_CONFIG` for what is no list of names, or longer than a node can take.
 */
export function checkResources(resources: string | readonly string[]): readonly string[] {
  const list = copyOf(resources);
  if (list.length === 0) throw configError('A lock needs at least one resource.', 'acquire');
  let characters = 0;
  for (const resource of list) {
    if (typeof resource !== 'string' || resource === '') {
      throw configError('A resource must be a string that is not empty.', 'acquire');
    }
    if (COUNTER_KEYS.includes(resource)) {
      throw configError(`${resource} is where nodes keep their fencing counter, and cannot be locked.`, 'acquire');
    }
    characters += resource.length;
  }
  if (list.length > MOST_RESOURCES || characters > MOST_CHARACTERS) {
    throw configError(
      `A lock takes at most ${MOST_RESOURCES} resources of ${MOST_CHARACTERS} characters together.`,
      'acquire',
    );
  }
  return [...new Set<string>(list)];
}

function copyOf(resources: unknown): readonly string[] {
  if (typeof resources === 'string') return [resources];
  return readable('The resources', () => (Array.isArray(resources) ? Array.from<string>(resources) : []));
}

/** @throws LockError `ERR_LOCK_CONFIG` for what is no signal. */
export function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined || readable('signal', () => isSignal(signal))) return signal;
  throw configError(`signal is ${show(signal)}, but it must be an AbortSignal.`, 'acquire');
}

/** One of another realm, or of a package, has another prototype. */
function isSignal(signal: unknown): boolean {
  if (!isRecord(signal)) return false;
  const { aborted, addEventListener, removeEventListener } = signal as Partial<AbortSignal>;
  return (
    typeof aborted === 'boolean' && [addEventListener, removeEventListener].every((it) => typeof it === 'function')
  );
}
