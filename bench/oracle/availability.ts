import { quorumOf } from '../../deviations/index.js';
import type { Outage } from '../../properties/monitors/outage.js';
import type { KeyLifetime } from './attempt-index.js';
import { beliefsOf } from './beliefs.js';
import { joined, type Span } from './clock-line.js';
import type { Lock } from './trace-index.js';
import type { WaitIndex } from './wait-index.js';

const MOVES: readonly string[] = ['crash', 'restart', 'failover', 'reconfigure'];

/** When nobody could acquire: a whole run, looked at between all instants in which anything of it changed. */
export function outages(waits: WaitIndex): Outage[] {
  const down = tooFewUp(waits);
  const orphaned = orphanedKeys(waits);
  return [...down, ...orphaned, ...endlessWait(waits, [...down, ...orphaned])];
}

/** Whether some client can reach a quorum, by the list that it knows, of the nodes that are up and not among these. */
function isQuorumUp({ record, conditions }: WaitIndex, seq: number, but: ReadonlySet<string> = new Set()): boolean {
  const { policy, clients } = record.setup;
  return clients.some((client) => {
    const { nodes } = conditions.told(client, seq);
    const usable = nodes.filter((node) => conditions.isUp(node, seq) && !but.has(node));
    return usable.length >= quorumOf(policy, nodes.length);
  });
}

/** The instants in which a node went or came, or a client was told of others. */
function movesOf({ record }: WaitIndex): number[] {
  return record.events.filter(({ kind }) => MOVES.includes(kind)).map(({ atUs }) => atUs);
}

function tooFewUp(waits: WaitIndex): Outage[] {
  const spans = spansIn(waits, [0, ...movesOf(waits)], (_, seq) => !isQuorumUp(waits, seq));
  return spans.map(({ from, to }) => ({ fromUs: from, toUs: to, reason: 'no-quorum-up' }));
}

/** The longest stretches in which something is so, by looking at the end of each instant in which it may change. */
function spansIn(waits: WaitIndex, instants: readonly number[], isSo: (atUs: number, seq: number) => boolean): Span[] {
  const { endUs } = waits.record;
  const sorted = [...new Set([...instants, endUs])].filter((it) => it <= endUs).sort((a, b) => a - b);
  const spans: Span[] = [];
  let from: number | null = null;
  for (const atUs of sorted) {
    const so = atUs < endUs && isSo(atUs, waits.seqAfter(atUs));
    if (so) from ??= atUs;
    else if (from !== null) {
      spans.push({ from, to: atUs });
      from = null;
    }
  }
  return spans;
}

/** A key that nobody has any use for, and that gets in the way at `counts`, when no release is on its way any more. */
interface Orphan extends Span {
  readonly stay: KeyLifetime;
  readonly counts: number;
}

/**
 * Enough nodes are up for a quorum, but not without those on which there are keys that nobody has had any use for in
 * longer than a release may take; and nobody believes to hold the resource. Told of from when that was first so by the
 * same keys.
 */
function orphanedKeys(waits: WaitIndex): Outage[] {
  const { record, uses } = waits;
  const graceUs = record.setup.policy.settings.nodeTimeoutUs ?? 50_000;
  const orphans = uses.stays
    .flatMap((stay) => orphanSpans(stay, record.endUs).map((span) => ({ ...span, stay, counts: span.from + graceUs })))
    .filter(({ to, counts }) => counts < to);
  return [...new Set(orphans.flatMap(({ stay }) => stay.use.lock.resources))].flatMap((resource) =>
    blockedSpans(
      waits,
      resource,
      orphans.filter(({ stay }) => stay.resource === resource),
    )
      .filter(({ from, to }) => to - from > graceUs)
      .map(({ from, to }) => ({ fromUs: from, toUs: to, reason: 'orphaned-keys' as const })),
  );
}

function blockedSpans(waits: WaitIndex, resource: string, orphans: readonly Orphan[]): Span[] {
  const { record } = waits;
  const beliefs = record.locks
    .filter((lock) => lock.resources.includes(resource))
    .flatMap((lock) => beliefsOf(lock, record));
  const isBlocked = (atUs: number, keys: readonly Orphan[]): boolean => {
    const seq = waits.seqAfter(atUs);
    const nodes = new Set(keys.map(({ stay }) => stay.node));
    return nodes.size > 0 && !beliefs.some(holdsAt(atUs)) && isQuorumUp(waits, seq) && !isQuorumUp(waits, seq, nodes);
  };
  const counted = (atUs: number): Orphan[] => orphans.filter(({ counts, to }) => counts <= atUs && atUs < to);
  const changes = [...movesOf(waits), ...[...orphans, ...beliefs].flatMap(({ from, to }) => [from, to])];
  const instants = [...changes, ...orphans.map(({ counts }) => counts)];
  const spans = spansIn(waits, instants, (atUs) => isBlocked(atUs, counted(atUs)));
  const earlier = [...new Set(changes)].sort((a, b) => b - a);
  return joined(
    spans.map(({ from, to }) => {
      const keys = counted(from);
      const before = earlier.filter((it) => it < from);
      const free = before.findIndex((it) => !isBlocked(it, keys.filter(holdsAt(it))));
      return { from: (free < 0 ? before : before.slice(0, free)).at(-1) ?? from, to };
    }),
  );
}

function holdsAt(atUs: number): (span: Span) => boolean {
  return ({ from, to }) => from <= atUs && atUs < to;
}

/** The parts of a key's stay in which nobody has any use for it. */
function orphanSpans({ use, fromUs, toUs }: KeyLifetime, endUs: number): Span[] {
  return use.useless.flatMap(({ atUs, value }, i) => {
    if (value === null) return [];
    const from = Math.max(fromUs, atUs, value);
    const to = Math.min(toUs ?? endUs, use.useless[i + 1]?.atUs ?? endUs);
    // Later entries only say that it began sooner.
    return from < to ? [{ from, to }] : [];
  });
}

/** Somebody waits to the end of the run, for longer than any key, pause and time-out can explain, and nobody holds it. */
function endlessWait(waits: WaitIndex, others: readonly Outage[]): Outage[] {
  const { record, conditions } = waits;
  const { policy } = record.setup;
  const end = Number.POSITIVE_INFINITY;
  const asked = record.locks.filter((lock) => lock.attempts.length > 0);
  const ttls = asked.flatMap((lock) => [
    lock.call.ttlMs,
    ...lock.attempts.flatMap((it) => it.rounds).map((it) => it.ttlMs),
  ]);
  const explained =
    1000 * (Math.max(0, ...ttls) + 1) +
    policy.settings.retryDelayUs +
    policy.settings.retryJitterUs +
    2 * (policy.settings.nodeTimeoutUs ?? 0);
  const shares = (a: Lock, b: Lock): boolean => a.resources.some((it) => b.resources.includes(it));
  const starts = asked
    .filter((lock) => waits.isWaiting(lock, end))
    .filter((lock) => !record.locks.some((other) => shares(other, lock) && waits.isHolding(other, end)))
    .map((lock) => {
      const ends = record.locks.filter((other) => shares(other, lock)).flatMap((other) => waits.endsOf(other));
      const since = [lock.attempts[0]?.asked[0], ...ends].map((it) => it?.atUs ?? 0);
      return Math.max(...since, ...others.map(({ toUs }) => toUs), conditions.frozenUntil(lock.client, end));
    });
  const fromUs = Math.min(record.endUs, ...starts);
  return record.endUs - fromUs > explained ? [{ fromUs, toUs: record.endUs, reason: 'nobody-acquires' }] : [];
}
