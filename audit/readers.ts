import type { Fault, LockPlan } from '../scenarios/index.js';
import type { Defect } from './defect.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import { type Plan, plansFor, takerIn, type Understood } from './plan.js';
import { type Attempt, calm, delayed, REST_MS, rehearse, use } from './rehearsal.js';
import { hasRole } from './roles.js';
import { isAdded } from './said.js';

/** What two who only read do to each other. */
export interface TwoReaders {
  /** As one of two leaves, a writer gets in beside the other. */
  readonly leavesAll: boolean;
  /** A writer gets in while one reads, or one reads while another writes. */
  readonly ignores: 'readers' | 'writers' | null;
  /** As one leaves after its time was over, a writer gets in beside one that came later. */
  readonly leavesLate: boolean;
  /** A writer gets in when the time of the first of two is over, and the other still reads. */
  readonly endsWithFirst: boolean;
  /** A writer gets in when the time of a reader with a shorter TTL is over, and another one still reads. */
  readonly endsWithShorter: boolean;
  /** A writer gets in between the commands by which a reader looks for one and adds itself: the verbs of these. */
  readonly addsLate: readonly [string, string] | null;
  /** One dies while it reads, and a writer does not get in long after. */
  readonly isKept: boolean;
}

/** The TTL of a reader that has less time than the others. */
const BRIEF_SHARE = 0.1;

/** A reader that has died is gone by then, ms. */
const LONG_AFTER_MS = 10_800_000;

const NOTHING: TwoReaders = {
  ignores: null,
  leavesAll: false,
  leavesLate: false,
  endsWithFirst: false,
  endsWithShorter: false,
  addsLate: null,
  isKept: false,
};

/** Finds out whether a writer waits for all who read. */
export async function twoReaders(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<TwoReaders> {
  if (how.plan.shared === undefined) return NOTHING;
  const planOf = plansFor(how, ['c2', 'c3']);
  const plays = async (
    uses: readonly LockPlan[],
    faults: readonly Fault[] = [],
  ): Promise<(name: string) => Attempt | undefined> => {
    const clients = uses.map((it) => [it]);
    const lastMs = Math.max(...uses.map(({ atUs }) => atUs)) / 1000;
    const schedule = calm(how.nodes, clients, (lastMs + 6 * ttlMs + REST_MS) * 1000);
    const attempts = await rehearse(bench, hosts, how, { ...schedule, faults: [...faults] }, { planOf });
    return (name) => attempts.find(({ client }) => client === name);
  };
  const [long, short] = [use(10, ttlMs, 0.6 * ttlMs), use(0.2 * ttlMs, ttlMs, 1)];
  const [written, read] = [await plays([short, long]), await plays([long, short])];
  // Readers may have less time than writers.
  const readMs = Math.min(ttlMs, written('c2')?.trial?.ttlMs ?? ttlMs);
  const isIgnored = isWhile(written('c1'), written('c2'), readMs);
  const ignores = isIgnored ? 'readers' : isWhile(read('c2'), read('c1'), ttlMs) ? 'writers' : null;
  if (ignores !== null) return { ...NOTHING, ignores };
  const isBeside = async (first: LockPlan, second: LockPlan, writerMs: number): Promise<boolean> => {
    const of = await plays([use(writerMs, ttlMs, 1), first, second]);
    return isWhile(of('c1'), first.atUs > second.atUs ? of('c2') : of('c3'), readMs);
  };
  const reads = (from: number, forShare: number): LockPlan => use(10 + from * readMs, ttlMs, forShare * readMs);
  // The longer of two is the one that is still there.
  const leavesAll =
    (await isBeside(reads(0.2, 0.6), reads(0.1, 0.2), 0.4 * readMs)) ||
    (await isBeside(reads(0.1, 0.2), reads(0.2, 0.6), 0.4 * readMs));
  const leavesLate = await isBeside(reads(0, 1.4), reads(1.2, 0.7), 1.5 * readMs);
  const endsWithFirst = await isBeside(reads(0, 0.8), reads(0.6, 0.8), 1.1 * readMs);
  const brief = use(10 + 0.1 * readMs, BRIEF_SHARE * ttlMs, 1);
  const of = isGivenTtl(bench, how.plan.shared)
    ? await plays([use(0.5 * readMs, ttlMs, 1), reads(0, 0.8), brief])
    : null;
  const endsWithShorter = of !== null && isWhile(of('c1'), of('c2'), readMs);
  const dies: Fault = { kind: 'client-crash', client: 'c2', atUs: Math.round(ttlMs * 300) };
  const after = await plays([use(LONG_AFTER_MS, ttlMs, 1), use(10, ttlMs, 0.6 * ttlMs)], [dies]);
  const isKept = after('c2')?.held != null && after('c1')?.held == null;
  const addsLate = await addedLate(plays, written('c2'), readMs);
  return { ignores, leavesAll, leavesLate, endsWithFirst, endsWithShorter, addsLate, isKept };
}

/** Whether each call of a reader says what its TTL is, and not the configuration of all. */
function isGivenTtl({ program }: Bench, plan: Plan): boolean {
  const shape = program.shapes.find(({ name }) => name === takerIn(plan));
  return shape !== undefined && hasRole(shape.parameters, 'ttl');
}

/** The two commands of a reader between which a writer gets in, where it does not see that one. */
async function addedLate(
  plays: (uses: readonly LockPlan[], faults?: readonly Fault[]) => Promise<(name: string) => Attempt | undefined>,
  reader: Attempt | undefined,
  ttlMs: number,
): Promise<readonly [string, string] | null> {
  const { trial, askedMs = Number.NaN, acquiredMs = Number.NaN } = reader ?? {};
  // What adds itself to others acquires no key.
  const untilMs = trial?.isGranted === true ? trial.grantedMs : acquiredMs;
  const asked = trial?.sent.filter(({ key, atMs }) => key !== '' && atMs >= askedMs && atMs < untilMs) ?? [];
  const [first, last] = asked.slice(-2);
  if (first === undefined || last === undefined || last.atMs <= first.atMs) return null;
  const lateMs = ttlMs / 4;
  const sentMs = FIRST_MS + last.atMs - askedMs;
  const of = await plays(
    [use(sentMs + 1, ttlMs, 0.8 * ttlMs), use(FIRST_MS, ttlMs, 0.6 * ttlMs)],
    [delayed('c2', 'n0', sentMs - 0.5, lateMs)],
  );
  const [writer, late] = [of('c1'), of('c2')];
  if (writer?.held == null || late?.held == null) return null;
  const isBoth = writer.acquiredMs < late.acquiredMs && late.acquiredMs < writer.releasedMs;
  return isBoth && (last.operation === 'acquire' || isAdded(last)) ? [first.verb, last.verb] : null;
}

/** When the first reader of such a run asks, ms. */
const FIRST_MS = 1_000;

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

const WITH_FIRST = {
  id: 'readers-share-ttl',
  sentence:
    'all readers have one key, whose TTL only the first of them sets: it expires while one that came later still reads, and a writer gets in beside that one',
  fix: 'let each reader that comes extend the TTL of the key of the readers (PEXPIRE), or give each an entry with its own end (ZADD)',
};

const WITH_SHORTER = {
  id: 'readers-share-ttl',
  sentence:
    'all readers have one key, whose TTL each that comes sets to its own: one with a shorter TTL lets it expire while another one still reads, and a writer gets in beside that one',
  fix: 'let a reader that comes extend the TTL of the key of the readers, and never shorten it (PEXPIRE … GT), or give each an entry with its own end (ZADD)',
};

const addedBetween = ([looks, adds]: readonly [string, string]): Pick<Defect, 'id' | 'sentence' | 'fix'> => ({
  id: 'reader-adds-late',
  sentence: `a reader looks for a writer and adds itself by two commands (${looks.toUpperCase()}, then ${adds.toUpperCase()}): that is not atomic, and a writer that comes in between sees no reader, so that both have the lock`,
  fix: 'look for the key of the writer and add the reader in one script, or look again when the reader has been added',
});

const KEPT: Defect = {
  id: 'reader-kept',
  sentence:
    'a reader that dies while it reads is never taken out: its entry has no end (SADD, INCR without a TTL), and no writer gets the lock again',
  fix: 'an entry for each reader with its own end (ZADD with the time of the server), of which a writer removes those that are over (ZREMRANGEBYSCORE)',
  brings: ['lifetime', 'unavailable'],
  property: 'deadlock-free',
  isShown: true,
};

/** What is wrong with how readers and writers wait for each other. */
export function leavingDefects({
  ignores,
  leavesAll,
  leavesLate,
  endsWithFirst,
  endsWithShorter,
  addsLate,
  isKept,
}: TwoReaders): Defect[] {
  const leaves = leavesAll ? FOR_ALL : leavesLate ? LATE : endsWithFirst ? WITH_FIRST : null;
  const about =
    (ignores && IGNORES[ignores]) ??
    leaves ??
    (addsLate && addedBetween(addsLate)) ??
    (endsWithShorter ? WITH_SHORTER : null);
  const kept = isKept ? [KEPT] : [];
  return about === null
    ? kept
    : [{ ...about, brings: ['belief'], property: 'mutual-exclusion', isShown: true }, ...kept];
}
