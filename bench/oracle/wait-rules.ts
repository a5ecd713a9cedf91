import { finding } from './claim-rules.js';
import type { Finding } from './finding.js';
import { aloneUs } from './patience.js';
import type { Lock } from './trace-index.js';
import type { WaitIndex } from './wait-index.js';

/** An instant in which the watch over those who wait begins again. */
interface Reset {
  readonly atUs: number;
  /** Somebody came or went, or a key that was in the way; else something got in the way, or no longer does. */
  readonly isChange: boolean;
}

/**
 * A client waits alone, undisturbed, with a majority in order and free, for longer than two attempts take. Looked at
 * whenever the longest patience of all who have asked so far is over since the last reset, and again each time that it is
 * over once more.
 */
export function loneWait(waits: WaitIndex): Finding[] {
  const { record, conditions } = waits;
  const told = new Set<Lock>();
  const findings: Finding[] = [];
  const resets = resetsOf(waits);
  let [fromUs, sinceUs] = [0, 0];
  for (const [i, { atUs, isChange }] of resets.entries()) {
    if (isChange) fromUs = atUs;
    else sinceUs = atUs;
    const untilUs = Math.min(record.endUs, resets[i + 1]?.atUs ?? record.endUs);
    const seq = waits.seqAfter(atUs);
    if (untilUs <= atUs || !record.locks.some((lock) => waits.isWaiting(lock, seq))) continue;
    const patience = patienceAt(waits, seq);
    const next = (): number => conditions.after(Math.max(fromUs, sinceUs), patience, seq);
    for (let due = next(); due < untilUs; due = next()) {
      const looked = look(waits, due, told);
      findings.push(...looked.findings);
      fromUs = Math.max(due, looked.freeUs);
    }
  }
  return findings;
}

function resetsOf(waits: WaitIndex): Reset[] {
  const { record, troubles, uses } = waits;
  const marks = record.locks.flatMap((lock) => [
    lock.call,
    ...lock.turns.filter(({ kind }) => kind !== 'end'),
    ...waits.endsOf(lock),
    ...(lock.failed === null ? [] : [lock.failed]),
  ]);
  const deaths = record.events.filter(({ kind }) => kind === 'client-crash');
  const changes = [...marks, ...uses.givingBack, ...uses.strays, ...deaths].map(({ atUs }) => ({
    atUs,
    isChange: true,
  }));
  const disturbed = troubles.flatMap(({ atUs, untilUs }) =>
    [atUs, untilUs].map((it) => ({ atUs: it, isChange: false })),
  );
  return [...changes, ...disturbed].sort((a, b) => a.atUs - b.atUs);
}

function patienceAt({ record, conditions }: WaitIndex, seq: number): number {
  const { locks, setup } = record;
  const asked = locks.filter(({ call }) => call.seq < seq);
  return Math.max(0, ...asked.map((it) => aloneUs(setup.policy, conditions.list(it).nodes.length, it.call.ttlMs)));
}

/** Who should have the lock by `due`; and until when keys that are there for a reason keep others out. */
function look(waits: WaitIndex, due: number, told: Set<Lock>): { findings: Finding[]; freeUs: number } {
  const { record, conditions } = waits;
  const seq = waits.seqAfter(due);
  const findings: Finding[] = [];
  let freeUs = 0;
  for (const lock of record.locks) {
    if (told.has(lock) || !waits.isWaiting(lock, seq) || hasRivals(waits, lock, seq)) continue;
    if (conditions.frozenUntil(lock.client, seq) > due) continue;
    const usable = conditions.usable(lock, due, seq);
    const { majority, distinct } = conditions.list(lock);
    if (usable.length < majority) continue;
    const free = waits.freeAt([lock], usable, due, seq);
    if (free >= due) freeUs = Math.max(freeUs, free);
    else {
      told.add(lock);
      findings.push(finding(usable.length === distinct ? 'deadlock-free' : 'fault-tolerance', [lock], due));
    }
  }
  return { findings, freeUs };
}

function hasRivals(waits: WaitIndex, lock: Lock, seq: number): boolean {
  return waits.record.locks.some(
    (other) =>
      other !== lock &&
      other.resources.some((it) => lock.resources.includes(it)) &&
      (waits.isWaiting(other, seq) || waits.isHolding(other, seq)),
  );
}
