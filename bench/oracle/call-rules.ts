import { type Policy, REFERENCE } from '../../deviations/index.js';
import { believedAt } from './beliefs.js';
import { finding } from './claim-rules.js';
import type { Finding } from './finding.js';
import { releaseCallUs, tryUs } from './patience.js';
import type { Lock, TraceRef } from './trace-index.js';
import { earliest, type WaitIndex } from './wait-index.js';

/** A call, or a try of one, that has to be over by its bound. */
interface Open {
  readonly lock: Lock;
  readonly from: TraceRef;
  readonly to: TraceRef | null;
  /** µs of its client's clock. */
  readonly boundUs: number;
}

/** Every try of an acquisition, and every release, is over within its own time-outs; again after its client was frozen. */
export function calls(waits: WaitIndex): Finding[] {
  return openCalls(waits).flatMap((call) => {
    const due = dueOf(waits, call);
    return due < (call.to?.atUs ?? waits.record.endUs) ? [finding('fault-tolerance', [call.lock], due)] : [];
  });
}

function openCalls(waits: WaitIndex): Open[] {
  const { record, conditions, uses } = waits;
  const { policy } = record.setup;
  return record.locks.flatMap((lock) => {
    const places = conditions.list(lock).nodes.length;
    const { ttlMs } = lock.call;
    const death = waits.deathOf(lock);
    const claim = lock.turns.find(({ kind }) => kind === 'claim');
    const tries = lock.attempts.flatMap(({ asked: [from] }, k): Open[] => {
      if (from === undefined) return [];
      const to = earliest([lock.attempts[k + 1]?.asked[0], claim, lock.failed, death]);
      return [{ lock, from, to, boundUs: tryUs(policy, places, ttlMs, k + 1 === policy.settings.tries) }];
    });
    const back = uses.givingBack.filter((it) => it.lock === lock);
    const releases = back.map((from, i): Open => {
      return {
        lock,
        from,
        to: earliest([back[i + 1], lock.released, death]),
        boundUs: releaseCallUs(policy, places, ttlMs),
      };
    });
    return [...tries, ...releases];
  });
}

function dueOf(waits: WaitIndex, { lock, from, to, boundUs }: Open): number {
  const { conditions } = waits;
  let due = conditions.after(from.atUs, boundUs, from.seq + 1);
  if (due === Number.POSITIVE_INFINITY) return due;
  for (const { seq, atUs, detail } of waits.delaysOf(lock.client)) {
    if (seq < from.seq || (to !== null && seq > to.seq)) continue;
    if (atUs > due) break;
    due = Math.max(due, conditions.after(Number(detail.untilUs ?? atUs), boundUs, seq + 1));
  }
  return due;
}

/** A client that gives up has made all its attempts, and has paused between them. */
export function tries({ record }: WaitIndex): Finding[] {
  const { policy } = record.setup;
  // Who has only so much time may use it up first.
  if (policy.settings.acquireTimeoutUs !== null) return [];
  return record.locks.flatMap((lock) => {
    const { failed, call, attempts } = lock;
    // No further try could succeed.
    if (failed === null || failed.reason === 'counters-lost') return [];
    if (policy.settings.tries === null || attempts.length < policy.settings.tries)
      return [finding('fault-tolerance', [lock], failed.atUs)];
    const shortest = Math.max(0, policy.settings.retryDelayUs - policy.settings.retryJitterUs);
    const isHasty = failed.localUs - call.localUs < (policy.settings.tries - 1) * shortest;
    return isHasty ? [finding('deadlock-free', [lock], failed.atUs)] : [];
  });
}

/** A lock that extends itself, and that its owner never means to release, is over after as many TTLs as its policy allows. */
export function endlessHold(waits: WaitIndex): Finding[] {
  const { record, conditions } = waits;
  const { policy } = record.setup;
  if (policy.settings.autoExtendAtUs === null && policy.settings.autoExtendAtPpm === null) return [];
  return record.locks.flatMap((lock) => {
    if (lock.call.holdUs !== null) return [];
    return waits.stagesOf(lock).flatMap(({ from, to }) => {
      const untilUs = to?.atUs ?? record.endUs;
      let due = conditions.after(from.atUs, most(policy) * 1000 * lock.call.ttlMs, from.seq + 1);
      while (due < untilUs) {
        const seq = waits.seqAfter(due);
        if (!believedAt(lock, record, due, seq - 0.5)) return [];
        const frozenUntil = conditions.frozenUntil(lock.client, seq);
        if (frozenUntil <= due) return [finding('deadlock-free', [lock], due)];
        due = frozenUntil;
      }
      return [];
    });
  });
}

/** TTLs that a lock may last; where its policy knows no limit, that of the reference. */
function most({ settings: { maxExtensions } }: Policy): number {
  return 1 + (maxExtensions ?? REFERENCE.settings.maxExtensions ?? 0);
}
