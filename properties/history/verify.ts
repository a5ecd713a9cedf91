import { type HistoryLine, parseHistoryLine } from '../../scenarios/history-line.js';
import { InputError } from '../../scenarios/input-error.js';
import type { PropertyId } from '../../scenarios/scenario.js';
import { type Hold, LockHistory } from './lock-history.js';
import { losses, overlaps } from './overlaps.js';
import { type Rules, SOUND } from './rules.js';

/** Something that a history shows, with the lines that show it. */
export interface Finding {
  readonly property: PropertyId;
  readonly resource: string | null;
  /** Numbers of the lines, from 1, ascending. */
  readonly lines: readonly number[];
  readonly detail: string;
}

/** What a history of a real run shows. */
export interface HistoryVerdict {
  /**
   * `violated` is proven, within the clock errors that the history states; `passed` says only that nothing was;
   * `inconclusive` is neither: see `doubts`.
   */
  readonly verdict: 'passed' | 'violated' | 'inconclusive';
  /** Calls and writes. */
  readonly operations: number;
  readonly violations: readonly Finding[];
  /** Why a history without violations does not pass. */
  readonly doubts: readonly Omit<Finding, 'property'>[];
}

/** What is known about a history beyond its lines. */
export interface VerifyOptions {
  /** How far any time stamp may be off, µs, either way; a line that states more keeps it. Default 0. */
  readonly clockErrorUs?: number;
  /**
   * All lines are by one observer with one clock, who saw all that happened: then a write that nobody can say was made
   * under its lock is a violation, not a doubt. Default `false`.
   */
  readonly sawAll?: boolean;
}

/**
 * Checks a history of a real run by what is certain: a lock is held from the return of its acquisition until its release
 * is called or its claimed validity is over, less the clock error. Two that held one resource at one time are a
 * violation; so is a claim of more validity than the TTL, and an extension that succeeds after the validity had ended and
 * another had held the resource since. A lock whose acquisition nobody knows the end of is
 * never a holder, and a write outside what is certain is only a doubt.
 *
 * @param lines - The lines of the history; those of one lock in order. A last line that is cut off is a doubt.
 * @throws InputError naming the first line that is wrong, and what is wrong in it.
 */
export function verifyHistory(lines: Iterable<string>, options: VerifyOptions = {}): HistoryVerdict {
  return verifyBy(SOUND, lines, options);
}

/** {@link verifyHistory} by other rules. */
export function verifyBy(rules: Rules, lines: Iterable<string>, options: VerifyOptions = {}): HistoryVerdict {
  const { locks, operations, cutOff } = read(rules, lines, options.clockErrorUs ?? 0);
  const violations: Finding[] = [];
  const doubts: Omit<Finding, 'property'>[] = [];
  const holds = new Map<string, Hold[]>();
  for (const lock of locks) {
    for (const hold of lock.holds) for (const resource of new Set(lock.resources)) append(holds, resource, hold);
    for (const { operation, line, detail } of lock.overclaims) {
      const property = operation === 'acquire' ? 'acquisition' : 'extension';
      violations.push({ property, resource: null, lines: [line], detail });
    }
    for (const { resource, line, detail } of lock.strayWrites) {
      if (options.sawAll) violations.push({ property: 'action-in-belief', resource, lines: [line], detail });
      else doubts.push({ resource, lines: [line], detail });
    }
  }
  for (const [resource, list] of holds) violations.push(...findings(resource, list, rules));
  if (cutOff !== null)
    doubts.push({ resource: null, lines: [cutOff], detail: 'the history is cut off in its last line' });
  if (holds.size === 0) doubts.push({ resource: null, lines: [], detail: 'no lock was ever held' });
  const byLine = (a: { lines: readonly number[] }, b: { lines: readonly number[] }) =>
    (a.lines.at(-1) ?? 0) - (b.lines.at(-1) ?? 0);
  violations.sort(byLine);
  doubts.sort(byLine);
  const verdict = violations.length > 0 ? 'violated' : doubts.length > 0 ? 'inconclusive' : 'passed';
  return { verdict, operations, violations, doubts };
}

function append(holds: Map<string, Hold[]>, resource: string, hold: Hold): void {
  const list = holds.get(resource);
  if (list === undefined) holds.set(resource, [hold]);
  else list.push(hold);
}

function* findings(resource: string, holds: readonly Hold[], rules: Rules): Generator<Finding> {
  for (const { first, second, fromUs, untilUs } of overlaps(holds, rules)) {
    const all = [first.fromLine, first.untilLine, second.fromLine, second.untilLine];
    const lines = [...new Set(all)].sort((a, b) => a - b);
    const detail = `locks "${first.lock}" and "${second.lock}" both hold ${resource} from ${fromUs} to ${untilUs} µs`;
    yield { property: 'mutual-exclusion', resource, lines, detail };
  }
  for (const { before, after, between } of losses(holds, rules)) {
    const lines = [before.untilLine, between.fromLine, after.fromLine].sort((a, b) => a - b);
    const detail = `lock "${before.lock}" was extended as if nothing had happened, but "${between.lock}" held ${resource} since its validity had ended`;
    yield { property: 'lost-lock', resource, lines, detail };
  }
}

interface Read {
  readonly locks: readonly LockHistory[];
  readonly operations: number;
  /** Number of the last line, if it is cut off. */
  readonly cutOff: number | null;
}

const OPERATIONS: readonly HistoryLine['type'][] = ['acquire', 'extend', 'release', 'write'];

function read(rules: Rules, lines: Iterable<string>, clockErrorUs: number): Read {
  const locks = new Map<string, LockHistory>();
  let operations = 0;
  let number = 0;
  let wrong: { readonly error: unknown; readonly text: string; readonly line: number } | null = null;
  for (const text of lines) {
    number++;
    if (text.trim() === '') continue;
    // Only the last line may be wrong, and that only for want of its end.
    if (wrong !== null) throw wrong.error;
    let event: HistoryLine;
    try {
      event = withError(parseHistoryLine(text, number), clockErrorUs);
    } catch (error) {
      wrong = { error, text, line: number };
      continue;
    }
    if (OPERATIONS.includes(event.type)) operations++;
    const lock = locks.get(event.lock);
    if (lock !== undefined) lock.add(event, number);
    else if (event.type === 'acquire') locks.set(event.lock, new LockHistory(rules, event, number));
    else throw new InputError(`line ${number}: lock "${event.lock}" was never acquired; its "acquire" must come first`);
  }
  if (wrong !== null && !isCutOff(wrong.text)) throw wrong.error;
  for (const lock of locks.values()) lock.finish();
  return { locks: [...locks.values()], operations, cutOff: wrong?.line ?? null };
}

function withError(event: HistoryLine, errorUs: number): HistoryLine {
  return (event.errorUs ?? 0) >= errorUs ? event : { ...event, errorUs };
}

/** Whether a text that is no history line is the beginning of a JSON object, as a recorder that was killed leaves it. */
function isCutOff(text: string): boolean {
  if (!text.startsWith('{')) return false;
  try {
    JSON.parse(text);
    return false;
  } catch {
    return !text.trimEnd().endsWith('}');
  }
}
