import { finding } from './claim-rules.js';
import type { Finding } from './finding.js';
import type { Lock, TraceRef } from './trace-index.js';
import type { WaitIndex } from './wait-index.js';

/** By the definition of the property. */
const MOST_ROUNDS = 10;

interface Step extends TraceRef {
  readonly lock: Lock;
  readonly kind: 'asks' | 'fails' | 'moves' | 'leaves';
}

/** Of those who keep trying for a resource that is free for them, each has failed more than ten times undisturbed. */
export function failedRounds(waits: WaitIndex): Finding[] {
  const begunUs = new Map<Lock, number>();
  const failures = new Map<Lock, number>();
  let calmSince = 0;
  for (const { lock, kind, atUs, seq } of stepsOf(waits)) {
    if (kind === 'leaves') begunUs.delete(lock);
    if (kind === 'moves') failures.clear();
    if (kind === 'asks') begunUs.set(lock, atUs);
    if (kind !== 'fails') continue;
    const since = waits.calmSince(atUs, seq);
    if (since !== calmSince) failures.clear();
    calmSince = since;
    const begun = begunUs.get(lock) ?? 0;
    begunUs.set(lock, atUs);
    if (begun < since) continue;
    failures.set(lock, (failures.get(lock) ?? 0) + 1);
    const rivals = [...begunUs.keys()].filter((it) => it.resources.some((name) => lock.resources.includes(name)));
    const allFail = rivals.length > 1 && rivals.every((it) => (failures.get(it) ?? 0) > MOST_ROUNDS);
    if (allFail && isOpen(waits, rivals, atUs, seq)) return [finding('progress', rivals, atUs)];
  }
  return [];
}

function stepsOf(waits: WaitIndex): Step[] {
  const { locks } = waits.record;
  const steps = locks.flatMap((lock): Step[] => {
    const step = (kind: Step['kind'], { seq, atUs }: TraceRef): Step => ({ kind, seq, atUs, lock });
    const grants = lock.turns.filter((turn) => turn.kind !== 'end');
    const death = waits.deathOf(lock);
    const gone = [grants[0], death].filter((it) => it !== undefined && it !== null);
    return [
      ...lock.attempts.flatMap((attempt, k) => {
        const [from] = attempt.asked;
        if (from === undefined) return [];
        return [step(k === 0 ? 'asks' : 'fails', { atUs: from.atUs, seq: waits.lastSentWith(from) + 0.5 })];
      }),
      ...(lock.failed === null ? [] : [step('fails', lock.failed)]),
      ...gone.map((it) => step('leaves', it)),
      ...[...grants, ...waits.endsOf(lock)].map((it) => step('moves', it)),
    ];
  });
  return steps.sort((a, b) => a.seq - b.seq);
}

/** Whether a majority is usable for all of them, and free of what others have set. */
function isOpen(waits: WaitIndex, rivals: readonly Lock[], atUs: number, seq: number): boolean {
  const { conditions } = waits;
  return rivals.every((rival) => {
    const usable = conditions.usable(rival, atUs, seq);
    return usable.length >= conditions.list(rival).majority && waits.freeAt(rivals, usable, atUs, seq) === 0;
  });
}

/** The run ended before its time, because that hardly went on any more. */
export function endless(waits: WaitIndex): Finding[] {
  const { record } = waits;
  if (record.endUs >= record.setup.untilUs) return [];
  const waiting = record.locks.filter((lock) => waits.isWaiting(lock, Number.POSITIVE_INFINITY));
  return [finding('progress', waiting, record.endUs)];
}
