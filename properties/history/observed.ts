import { deviates, type Policy } from '../../deviations/index.js';
import type { LockLine } from '../../scenarios/history-line.js';

import type { PropertyId, Verdict } from '../../scenarios/scenario.js';
import { NOT_TOLD } from '../monitors/loss-notified.js';
import { SAFETY } from '../property-lists.js';
import type { Violation } from '../violation.js';
import { shownName } from './shown.js';
import { type Finding, verifyHistory } from './verify.js';

/** A run as one observer saw it from outside, µs from its start. */
export interface Observed {
  readonly history: readonly LockLine[];
  /** When fewer nodes than a quorum were up. */
  readonly down: readonly { readonly fromUs: number; readonly toUs: number }[];
  /** When keys that nobody has any use for kept everybody from a quorum. */
  readonly blocked: readonly { readonly fromUs: number; readonly toUs: number }[];
  /** Locks that were believed in while a majority of the nodes did not have them. */
  readonly unsupported: readonly string[];
  /** Claims that were made or kept without ground, by what their clients were answered. */
  readonly unfounded: readonly { readonly lock: string; readonly property: PropertyId; readonly detail: string }[];
  /** Acquisitions that had not come to their end. */
  readonly waiting: readonly { readonly resources: readonly string[]; readonly sinceUs: number }[];
  /** Longest that somebody can have to wait for a lock that nobody holds, µs. */
  readonly patienceUs: number;
  readonly endUs: number;
}

/** The properties whose violation shows from outside. */
const OBSERVABLE: readonly PropertyId[] = [
  'mutual-exclusion',
  'no-stale-write',
  'quorum-backed',
  'acquisition',
  'extension',
  'continuity',
  'loss-notified',
];

/** Whether a violation of a simulated run would show from outside: which keys were lost does not, nor a vote that nobody cast. */
export function showsOutside({ property, detail }: Violation, policy: Policy): boolean {
  if (property === 'loss-notified') return detail.endsWith(NOT_TOLD);
  return OBSERVABLE.includes(property) && !(deviates(policy, 'error-is-vote') && detail.includes('votes of this'));
}

/** What it shows, in the words of a simulated run. */
export interface ObservedVerdict {
  readonly verdict: Verdict;
  /** What was violated, each once, sorted. */
  readonly properties: readonly PropertyId[];
  readonly violations: readonly Finding[];
}

/**
 * Judges a run on real nodes as `judge` does a simulated one, by what shows from outside and by the same properties:
 * those of every fixed schedule, and `also`.
 */
export function judgeObserved(observed: Observed, also: readonly PropertyId[] = []): ObservedVerdict {
  const lines = observed.history.map((line) => JSON.stringify(line));
  const judged = [...SAFETY, ...also];
  const { violations: proven } = verifyHistory(lines, { sawAll: true });
  const { history, unfounded } = observed;
  // What a history calls a lost lock is a hold that is broken here.
  const certain = proven.filter((it) => it.property !== 'loss-notified' && !isLongByClock(history, it));
  const found = [...certain, ...broken(history), ...unfounded.map(ungrounded)];
  const violations = found.filter(({ property }) => judged.includes(property));
  if (also.includes('quorum-backed')) {
    for (const lock of observed.unsupported)
      violations.push({
        property: 'quorum-backed',
        resource: null,
        lines: [],
        detail: `lock ${shownName(lock)} was believed in while a majority of the nodes did not have it`,
      });
  }
  const properties = [...new Set(violations.map(({ property }) => property))].sort();
  if (violations.length > 0) return { verdict: 'violated', properties, violations };
  const outages = [...observed.down, ...observed.blocked];
  const unavailable = outages.length > 0 || nobodyAcquires(observed);
  return { verdict: unavailable ? 'unavailable' : 'safe', properties, violations };
}

/** A claim that is too long may be so by a clock that was set: whether its client should have known is {@link Observed.unfounded}. */
function isLongByClock(history: readonly LockLine[], { property, lines }: Finding): boolean {
  const claim = history[(lines[0] ?? 0) - 1];
  const isClaim = property === 'acquisition' || property === 'extension';
  return isClaim && claim !== undefined && 'validUs' in claim && claim.validUs > 0;
}

/** Extensions of locks that somebody else was granted since: one who is told of one takes it for an unbroken hold. */
function broken(history: readonly LockLine[]): Finding[] {
  const resources = new Map<string, readonly string[]>();
  const last = new Map<string, string>();
  return history.flatMap((line, i): Finding[] => {
    const { lock, type } = line;
    if (line.type === 'acquire') resources.set(lock, line.resources);
    if (type !== 'acquired' && type !== 'extended') return [];
    const own = resources.get(lock) ?? [];
    const others = own.map((it) => last.get(it)).filter((other) => other !== lock);
    for (const resource of own) last.set(resource, lock);
    if (type === 'acquired' || others.length === 0) return [];
    const detail = `lock ${shownName(lock)} is extended, but ${shownName(others[0] ?? '')} was granted it in between`;
    return [{ property: 'continuity', resource: null, lines: [i + 1], detail }];
  });
}

function ungrounded({ lock, property, detail }: Observed['unfounded'][number]): Finding {
  return { property, resource: null, lines: [], detail: `lock ${shownName(lock)}: ${detail}` };
}

/** Whether somebody waited to the end for what nobody held, for longer than anything can explain. */
function nobodyAcquires({ history, down, waiting, patienceUs, endUs }: Observed): boolean {
  const ends = holdEnds(history);
  const quorumSince = Math.max(0, ...down.map(({ toUs }) => toUs));
  return waiting.some(({ resources, sinceUs }) => {
    const freeSince = Math.max(0, ...resources.map((resource) => ends.get(resource) ?? 0));
    return freeSince < endUs && endUs - Math.max(sinceUs, freeSince, quorumSince) > patienceUs;
  });
}

/** When the last belief in each resource ended or will end, µs. */
function holdEnds(history: readonly LockLine[]): Map<string, number> {
  const locks = new Map<string, { readonly resources: readonly string[]; endUs: number }>();
  for (const line of history) {
    if (line.type === 'acquire') locks.set(line.lock, { resources: line.resources, endUs: 0 });
    const lock = locks.get(line.lock);
    if (lock === undefined) continue;
    if (line.type === 'acquired' || line.type === 'extended') lock.endUs = line.atUs + line.validUs;
    if (line.type === 'release') lock.endUs = Math.min(lock.endUs, line.atUs);
  }
  const ends = new Map<string, number>();
  for (const { resources, endUs } of locks.values())
    for (const resource of resources) ends.set(resource, Math.max(ends.get(resource) ?? 0, endUs));
  return ends;
}
