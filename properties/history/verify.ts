import { type HistoryLine, parseHistoryLine } from '../../scenarios/history-line.js';
import { InputError } from '../../scenarios/input-error.js';
import type { PropertyId } from '../../scenarios/scenario.js';
import { type Death, type Hold, type Issue, LockHistory } from './lock-history.js';
import { losses, overlaps } from './overlaps.js';
import { type Rules, SOUND } from './rules.js';
import { shownName, shownResource } from './shown.js';
import { wrongOrders } from './token-order.js';

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
interface VerifyOptions {
  /** How far any time stamp may be off, µs, either way; a line that states more keeps it. Default 0. */
  readonly clockErrorUs?: number;
  /**
   * All lines are by one observer with one clock, who saw all that happened: then a write that nobody can say was made
   * under its lock is a violation, not a doubt, and an owner who has not heard of its extension counts on what it was told
   * before. Default `false`.
   */
  readonly sawAll?: boolean;
}

/**
 * Checks a history of a real run by what is certain: a lock is held from the return of its acquisition until its release
 * is called, its client has died or its claimed validity is over, less the clock error; while an extension by less than
 * that may have been carried out, by so much less. Two that held one resource at one time are a violation; so is a claim
 * of nothing or of more validity than the TTL, an extension that succeeds after the validity had ended and another had
 * held the resource since, and a fencing token that is no greater than one of a lock that was certainly there before. A
 * lock whose acquisition nobody knows the end of is never a holder, and a write outside what is certain is only a doubt.
 *
 * @param lines - The lines of the history; those of one lock in order. A last line that is cut off is a doubt.
 * @throws InputError naming the first line that is wrong, and what is wrong in it.
 */
export function verifyHistory(lines: Iterable<string>, options: VerifyOptions = {}): HistoryVerdict {
  return verifyBy(options.sawAll ? { ...SOUND, capsShorter: false } : SOUND, lines, options);
}

/** {@link verifyHistory} by other rules. */
export function verifyBy(rules: Rules, lines: Iterable<string>, options: VerifyOptions = {}): HistoryVerdict {
  const { locks, operations, cutOff } = read(rules, lines, options.clockErrorUs ?? 0);
  const violations: Finding[] = [];
  const doubts: Omit<Finding, 'property'>[] = [];
  const holds = new Map<string, Hold[]>();
  const issues = new Map<string, Issue[]>();
  for (const lock of locks) {
    const { issue } = lock;
    for (const resource of new Set(lock.resources)) {
      for (const hold of lock.holds) append(holds, resource, hold);
      if (issue !== null && rules.comparesTokens) append(issues, resource, issue);
    }
    for (const { operation, line, detail } of lock.wrongClaims) {
      const property = operation === 'acquire' ? 'acquisition' : 'extension';
      violations.push({ property, resource: null, lines: [line], detail });
    }
    for (const { resource, line, detail } of lock.strayWrites) {
      if (options.sawAll) violations.push({ property: 'no-stale-write', resource, lines: [line], detail });
      else doubts.push({ resource, lines: [line], detail });
    }
  }
  for (const [resource, list] of holds) violations.push(...findings(resource, list, rules));
  for (const [resource, list] of issues) violations.push(...tokenFindings(resource, list));
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

function append<K, V>(lists: Map<K, V[]>, key: K, item: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

function* findings(resource: string, holds: readonly Hold[], rules: Rules): Generator<Finding> {
  for (const { first, second, fromUs, untilUs } of overlaps(holds, rules)) {
    const all = [first.fromLine, first.untilLine, second.fromLine, second.untilLine];
    const lines = [...new Set(all)].sort((a, b) => a - b);
    const detail = `locks ${shownName(first.lock)} and ${shownName(second.lock)} both hold ${shownResource(resource)} from ${fromUs} to ${untilUs} µs`;
    yield { property: 'mutual-exclusion', resource, lines, detail };
  }
  for (const { before, after, between } of losses(holds, rules)) {
    const lines = [before.untilLine, between.fromLine, after.fromLine].sort((a, b) => a - b);
    const detail = `lock ${shownName(before.lock)} was extended as if nothing had happened, but ${shownName(between.lock)} held ${shownResource(resource)} since its validity had ended`;
    yield { property: 'loss-notified', resource, lines, detail };
  }
}

function* tokenFindings(resource: string, issues: readonly Issue[]): Generator<Finding> {
  for (const { before, after } of wrongOrders(issues)) {
    const lines = [before.line, after.line].sort((a, b) => a - b);
    const [old, own] = [before, after].map(({ token }) => tokenText(token));
    const detail = `lock ${shownName(after.lock)} gets the fencing token ${own} of ${shownResource(resource)}, but ${shownName(before.lock)} got ${old} before`;
    yield { property: 'fencing', resource, lines, detail };
  }
}

function tokenText({ counter, attempt }: Issue['token']): string {
  return attempt === null ? String(counter) : `${counter} (${attempt})`;
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
  const crashes = new Map<string, Death[]>();
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
    if (event.type === 'crashed') {
      append(crashes, event.client, { event, line: number });
      continue;
    }
    const lock = locks.get(event.lock);
    if (lock !== undefined) lock.add(event, number);
    else if (event.type === 'acquire') locks.set(event.lock, new LockHistory(rules, event, number));
    else
      throw new InputError(
        `line ${number}: lock ${shownName(event.lock)} was never acquired; its "acquire" must come first`,
      );
  }
  if (wrong !== null && !isCutOff(wrong.text)) throw wrong.error;
  for (const list of crashes.values()) list.sort((a, b) => a.event.atUs - b.event.atUs);
  for (const lock of locks.values()) lock.finish(crashes.get(lock.client) ?? []);
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
