import type { LockPlan } from '../scenarios/index.js';
import type { Defect } from './defect.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';

/** What two who only read do to each other. */
export interface TwoReaders {
  /** As one of two leaves, a writer gets in beside the other. */
  readonly leavesAll: boolean;
  /** As one leaves after its time was over, a writer gets in beside one that came later. */
  readonly leavesLate: boolean;
}

/** Finds out whether a writer waits for all who read. */
export async function twoReaders(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<TwoReaders> {
  if (how.plan.shared === undefined) return { leavesAll: false, leavesLate: false };
  const isBeside = async (first: LockPlan, second: LockPlan, writerMs: number): Promise<boolean> => {
    const writer = use(writerMs, ttlMs, 1);
    const untilUs = (6 * ttlMs + REST_MS) * 1000;
    const attempts = await rehearse(bench, hosts, how, calm(how.nodes, [[writer], [first], [second]], untilUs), {
      readers: ['c2', 'c3'],
    });
    const of = (name: string): Attempt | undefined => attempts.find(({ client }) => client === name);
    return isWhile(of('c1'), first.atUs > second.atUs ? of('c2') : of('c3'), ttlMs);
  };
  // The longer of two is the one that is still there.
  const leavesAll =
    (await isBeside(use(0.2 * ttlMs, ttlMs, 0.6 * ttlMs), use(0.1 * ttlMs, ttlMs, 0.2 * ttlMs), 0.4 * ttlMs)) ||
    (await isBeside(use(0.1 * ttlMs, ttlMs, 0.2 * ttlMs), use(0.2 * ttlMs, ttlMs, 0.6 * ttlMs), 0.4 * ttlMs));
  const leavesLate = await isBeside(use(10, ttlMs, 1.4 * ttlMs), use(1.2 * ttlMs, ttlMs, 0.7 * ttlMs), 1.5 * ttlMs);
  return { leavesAll, leavesLate };
}

/** Whether a writer has got in while a reader has the lock, within that one's TTL. */
function isWhile(writer: Attempt | undefined, reader: Attempt | undefined, ttlMs: number): boolean {
  if (writer?.held == null || reader?.held == null) return false;
  const endMs = Math.min(reader.releasedMs, reader.askedMs + 0.9 * ttlMs);
  return writer.acquiredMs > reader.acquiredMs && writer.acquiredMs < endMs;
}

/** What is wrong with how readers leave. */
export function leavingDefects({ leavesAll, leavesLate }: TwoReaders): Defect[] {
  if (!leavesAll && !leavesLate) return [];
  return [
    {
      id: leavesAll ? 'reader-leaves-for-all' : 'readers-share-counter',
      sentence: leavesAll
        ? 'a reader that leaves takes all readers out, as where it deletes their whole key (DEL) rather than its own entry: a writer gets in while another reader still reads'
        : 'readers are not told apart, as where they share one counter with one TTL (INCR, DECR): a reader that leaves late, when its time has expired, counts off one that came later, and a writer gets in while that one still reads',
      fix: 'an entry for each reader with its own end (ZADD), of which only its own is removed (ZREM)',
      brings: ['belief'],
      property: 'mutual-exclusion',
      isShown: true,
    },
  ];
}
