import { beliefsOf, believedAt } from './beliefs.js';
import type { Span } from './clock-line.js';
import type { Finding } from './finding.js';
import type { KeyChange, Lock, TraceIndex, TraceRef } from './trace-index.js';

/** Two locks on one resource are believed in at once. All beliefs, sorted by their start, against those still open. */
export function mutualExclusion(record: TraceIndex): Finding[] {
  const findings: Finding[] = [];
  for (const resource of new Set(record.locks.flatMap((lock) => lock.resources))) {
    const beliefs = record.locks
      .filter((lock) => lock.resources.includes(resource))
      .flatMap((lock) => beliefsOf(lock, record).map((span) => ({ lock, ...span })))
      .sort((a, b) => a.from - b.from);
    let open: typeof beliefs = [];
    for (const belief of beliefs) {
      open = open.filter((other) => other.to > belief.from);
      for (const other of open) {
        const clients = [other.lock.client, belief.lock.client];
        const untilUs = Math.min(other.to, belief.to);
        findings.push({ property: 'mutual-exclusion', atUs: belief.from, untilUs, resource, clients });
      }
      open.push(belief);
    }
  }
  return findings;
}

/** A belief goes on without a majority of the nodes behind it, from the first such instant to its end. */
export function quorumBacked(record: TraceIndex): Finding[] {
  return record.locks.flatMap((lock) =>
    beliefsOf(lock, record).flatMap((span) => {
      const grant = lock.turns.findLast((it) => it.kind !== 'end' && it.atUs <= span.from);
      if (grant === undefined) return [];
      const drops = lock.resources.flatMap((resource) => {
        const changes = record.keysOf(grant.token).filter((it) => it.resource === resource);
        const drop = firstDrop(changes, Math.floor(lock.nodes / 2) + 1, span);
        // What was gone before the belief began is gone from its beginning.
        return drop === null ? [] : [{ resource, atUs: drop.atUs, seq: Math.max(drop.seq, grant.seq) }];
      });
      const [first] = drops.sort((a, b) => a.atUs - b.atUs || a.seq - b.seq);
      if (first === undefined) return [];
      const { resource, atUs } = first;
      return [{ property: 'quorum-backed' as const, atUs, untilUs: span.to, resource, clients: [lock.client] }];
    }),
  );
}

/** The first instant of a span at the end of which fewer nodes than that hold the key, and the change that did it. */
function firstDrop(changes: readonly KeyChange[], majority: number, { from, to }: Span): TraceRef | null {
  let count = 0;
  let seq = -1;
  for (const [i, change] of changes.entries()) {
    if (change.atUs >= to) break;
    // Up to here everything is known to the end of the instant before this one.
    const before = changes[i - 1]?.atUs ?? -1;
    if (count < majority && before < change.atUs && (before >= from || change.atUs > from)) {
      return { atUs: Math.max(before, from), seq };
    }
    count += change.how === 'set' ? 1 : -1;
    if (change.how !== 'set' && count === majority - 1) seq = change.atUs < from ? -1 : change.seq;
  }
  const last = changes.findLast((it) => it.atUs < to)?.atUs ?? from;
  return count < majority ? { atUs: Math.max(last, from), seq } : null;
}

/** A write reaches the resource while its writer does not believe; of no concern where the resource looks for itself. */
export function noStaleWrite(record: TraceIndex): Finding[] {
  if (record.setup.resource !== 'none') return [];
  return record.locks.flatMap((lock: Lock) =>
    lock.writes
      .filter(({ atUs, seq }) => !believedAt(lock, record, atUs, seq))
      .map(({ atUs }) => ({
        property: 'no-stale-write' as const,
        atUs,
        untilUs: atUs,
        resource: lock.resources[0] ?? '?',
        clients: [lock.client],
      })),
  );
}
