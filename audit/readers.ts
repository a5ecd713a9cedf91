import type { LockPlan } from '../scenarios/index.js';
import type { Defect } from './defect.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import { plansFor, type Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';

/** What two who only read do to each other. */
export interface TwoReaders {
  /** As one of two leaves, a writer gets in beside the other. */
  readonly leavesAll: boolean;
  /** A writer gets in while one reads, or one reads while another writes. */
  readonly ignores: 'readers' | 'writers' | null;
  /** As one leaves after its time was over, a writer gets in beside one that came later. */
  readonly leavesLate: boolean;
}

/** Finds out whether a writer waits for all who read. */
export async function twoReaders(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<TwoReaders> {
  if (how.plan.shared === undefined) return { ignores: null, leavesAll: false, leavesLate: false };
  const planOf = plansFor(how, ['c2', 'c3']);
  const plays = async (...uses: readonly LockPlan[]): Promise<(name: string) => Attempt | undefined> => {
    const clients = uses.map((it) => [it]);
    const schedule = calm(how.nodes, clients, (6 * ttlMs + REST_MS) * 1000);
    const attempts = await rehearse(bench, hosts, how, schedule, { planOf });
    return (name) => attempts.find(({ client }) => client === name);
  };
  const isBeside = async (first: LockPlan, second: LockPlan, writerMs: number): Promise<boolean> => {
    const of = await plays(use(writerMs, ttlMs, 1), first, second);
    return isWhile(of('c1'), first.atUs > second.atUs ? of('c2') : of('c3'), ttlMs);
  };
  const [long, short] = [use(10, ttlMs, 0.6 * ttlMs), use(0.2 * ttlMs, ttlMs, 1)];
  const [written, read] = [await plays(short, long), await plays(long, short)];
  const isIgnored = isWhile(written('c1'), written('c2'), ttlMs);
  const ignores = isIgnored ? 'readers' : isWhile(read('c2'), read('c1'), ttlMs) ? 'writers' : null;
  if (ignores !== null) return { ignores, leavesAll: false, leavesLate: false };
  // The longer of two is the one that is still there.
  const leavesAll =
    (await isBeside(use(0.2 * ttlMs, ttlMs, 0.6 * ttlMs), use(0.1 * ttlMs, ttlMs, 0.2 * ttlMs), 0.4 * ttlMs)) ||
    (await isBeside(use(0.1 * ttlMs, ttlMs, 0.2 * ttlMs), use(0.2 * ttlMs, ttlMs, 0.6 * ttlMs), 0.4 * ttlMs));
  const leavesLate = await isBeside(use(10, ttlMs, 1.4 * ttlMs), use(1.2 * ttlMs, ttlMs, 0.7 * ttlMs), 1.5 * ttlMs);
  return { ignores, leavesAll, leavesLate };
}

/** Whether one got in while another has the lock, within that one's TTL. */
function isWhile(later: Attempt | undefined, holder: Attempt | undefined, ttlMs: number): boolean {
  if (later?.held == null || holder?.held == null) return false;
  const endMs = Math.min(holder.releasedMs, holder.askedMs + 0.9 * ttlMs);
  return later.acquiredMs > holder.acquiredMs && later.acquiredMs < endMs;
}

const IGNORES = {
  readers: {
    id: 'writer-ignores-readers',
    sentence:
      'its lock for writers does not look for readers: with nothing in its way, a writer gets in while a reader has the read lock',
    fix: 'look for readers and set the key of the writer in one script',
  },
  writers: {
    id: 'reader-ignores-writer',
    sentence:
      'its lock for readers does not look for a writer: with nothing in its way, a reader gets in while a writer has the lock',
    fix: 'look for the key of the writer and add the reader in one script',
  },
} as const;
const FOR_ALL = {
  id: 'reader-leaves-for-all',
  sentence:
    'a reader that leaves takes all readers out, as where it deletes their whole key (DEL) rather than its own entry: a writer gets in while another reader still reads',
  fix: 'remove the own entry of a reader alone (ZREM, HDEL)',
};
const LATE = {
  id: 'readers-share-counter',
  sentence:
    'readers are not told apart, as where they share one counter with one TTL (INCR, DECR): a reader that leaves late, when its time has expired, counts off one that came later, and a writer gets in while that one still reads',
  fix: 'an entry for each reader with its own end (ZADD), of which only its own is removed (ZREM)',
};

/** What is wrong with how readers and writers wait for each other. */
export function leavingDefects({ ignores, leavesAll, leavesLate }: TwoReaders): Defect[] {
  const about = ignores !== null ? IGNORES[ignores] : leavesAll ? FOR_ALL : leavesLate ? LATE : null;
  return about === null ? [] : [{ ...about, brings: ['belief'], property: 'mutual-exclusion', isShown: true }];
}
