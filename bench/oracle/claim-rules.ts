import { statedDrift } from '../../deviations/index.js';
import type { PropertyId } from '../../scenarios/index.js';
import { believedAt } from './beliefs.js';
import type { Finding } from './finding.js';
import type { KeyChange, Lock, TraceIndex, Turn } from './trace-index.js';

/** A violation in one instant. */
export function finding(property: PropertyId, locks: readonly Lock[], atUs: number): Finding {
  const resource = locks[0]?.resources[0] ?? '?';
  return { property, atUs, untilUs: atUs, resource, clients: locks.map((lock) => lock.client) };
}

/** The nodes that a client counts and that did what it counts them for. */
function honestVotes({ granted, voted }: Turn): number {
  return [...voted].filter((node) => Math.floor(granted / 2 ** node) % 2 === 1).length;
}

/** Whether a deadline lies a whole µs or more behind start + TTL − D. */
function tooLate({ setup }: TraceIndex, deadline: number, startUs: number, ttlMs: number): boolean {
  const { driftPpm, driftUs } = statedDrift(setup.policy);
  // In thousandths of a µs, so that all is whole. No key lives longer than its TTL, whatever the policy says.
  const driftNs = BigInt(ttlMs) * BigInt(driftPpm) + 1000n * BigInt(driftUs);
  const excessNs = 1000n * BigInt(deadline - startUs - ttlMs * 1000) + (driftNs > 0n ? driftNs : 0n);
  return excessNs >= 1000n;
}

/** A claim without a majority of votes of its attempt, for too long, or with too little left. */
export function acquisition(record: TraceIndex): Finding[] {
  const { policy } = record.setup;
  return record.locks.flatMap((lock) =>
    lock.turns.flatMap((turn) => {
      const { attempt } = turn;
      if (turn.kind !== 'claim' || attempt === undefined) return [];
      const left = turn.deadline - turn.localUs;
      const wrong =
        2 * honestVotes(turn) <= lock.nodes ||
        tooLate(record, turn.deadline, attempt.asked[0]?.localUs ?? 0, attempt.ttlMs) ||
        left <= 0 ||
        left < policy.settings.minValidityUs;
      return wrong ? [finding('acquisition', [lock], turn.atUs)] : [];
    }),
  );
}

/** An extension without a majority that carried out its round, for too long, or with nothing left. */
export function extension(record: TraceIndex): Finding[] {
  return record.locks.flatMap((lock) =>
    lock.turns.flatMap((turn) => {
      const round = turn.attempt?.rounds.findLast((it) => it.seq < turn.seq);
      if (turn.kind !== 'extended' || round === undefined) return [];
      const wrong =
        2 * honestVotes(turn) <= lock.nodes ||
        tooLate(record, turn.deadline, round.localUs, round.ttlMs) ||
        turn.deadline <= turn.localUs;
      return wrong ? [finding('extension', [lock], turn.atUs)] : [];
    }),
  );
}

/** Between two grants of one lock, another was granted: each extension looks back to the one before. */
export function continuity(record: TraceIndex): Finding[] {
  const grants = record.locks
    .flatMap((lock) => lock.turns.filter(({ kind }) => kind !== 'end').map((turn) => ({ lock, turn })))
    .sort((a, b) => a.turn.seq - b.turn.seq);
  return grants.flatMap(({ lock, turn }, i) => {
    if (turn.kind !== 'extended') return [];
    for (const resource of lock.resources) {
      let before = i - 1;
      while (before >= 0 && !grants[before]?.lock.resources.includes(resource)) before--;
      const last = grants[before]?.lock;
      if (last !== undefined && last !== lock) return [finding('continuity', [last, lock], turn.atUs)];
    }
    return [];
  });
}

/** A lock loses its majority while it is believed in, and is extended all the same, be it after its end. */
export function lossNotified(record: TraceIndex): Finding[] {
  return record.locks.flatMap((lock) => {
    const grants = lock.turns.filter(({ kind }) => kind !== 'end');
    return grants.flatMap((turn, i) => {
      const last = grants[i - 1];
      if (last === undefined || turn.kind !== 'extended' || !losesMajority(record, lock, last, turn.seq)) return [];
      return [finding('loss-notified', [lock], turn.atUs)];
    });
  });
}

function losesMajority(record: TraceIndex, lock: Lock, { token, seq: fromSeq }: Turn, toSeq: number): boolean {
  const stored = new Map<number, Set<string>>();
  for (const change of record.keysOf(token)) {
    if (change.seq > toSeq) break;
    store(stored, change);
    if (change.how === 'set' || change.seq < fromSeq) continue;
    const whole = [...stored.values()].filter((keys) => lock.resources.every((it) => keys.has(it))).length;
    if (2 * whole <= lock.nodes && believedAt(lock, record, change.atUs, change.seq)) return true;
  }
  return false;
}

/** Keeps what is where. */
export function store(stored: Map<number, Set<string>>, { node, resource, how }: KeyChange): void {
  const keys = stored.get(node) ?? new Set();
  if (how === 'set') keys.add(resource);
  else keys.delete(resource);
  stored.set(node, keys);
}
