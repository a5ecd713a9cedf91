import type { LockLine } from '../../scenarios/history-line.js';
import type { PropertyId, Verdict } from '../../scenarios/scenario.js';
import { SAFETY } from '../property-lists.js';
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
  /** Acquisitions that had not come to their end. */
  readonly waiting: readonly { readonly resources: readonly string[]; readonly sinceUs: number }[];
  /** Longest that somebody can have to wait for a lock that nobody holds, µs. */
  readonly patienceUs: number;
  readonly endUs: number;
}

/** The properties whose violation shows from outside. */
export const OBSERVABLE: readonly PropertyId[] = [
  'mutual-exclusion',
  'action-in-belief',
  'validity',
  'acquisition',
  'extension',
  'lost-lock',
];

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
  const { violations: found } = verifyHistory(lines, { sawAll: true });
  const violations = found.filter(({ property }) => judged.includes(property));
  if (also.includes('validity')) {
    for (const lock of observed.unsupported)
      violations.push({
        property: 'validity',
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

/** Whether somebody waited to the end for what nobody held, for longer than anything can explain. */
function nobodyAcquires({ history, down, waiting, patienceUs, endUs }: Observed): boolean {
  const ends = beliefEnds(history);
  const quorumSince = Math.max(0, ...down.map(({ toUs }) => toUs));
  return waiting.some(({ resources, sinceUs }) => {
    const freeSince = Math.max(0, ...resources.map((resource) => ends.get(resource) ?? 0));
    return freeSince < endUs && endUs - Math.max(sinceUs, freeSince, quorumSince) > patienceUs;
  });
}

/** When the last belief in each resource ended or will end, µs. */
function beliefEnds(history: readonly LockLine[]): Map<string, number> {
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
