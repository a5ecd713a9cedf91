import type { Fault } from '../scenarios/index.js';
import { isWork } from './called.js';
import type { Defect } from './defect.js';
import { looksAtForm } from './forms.js';
import { givesUp, goesOnGivenUp } from './given-up.js';
import { staleStore } from './handed-store.js';
import { isRoute } from './hooks.js';
import { keptOnReturn, losesFailed, sentWhileHeld } from './leavings.js';
import type { Bench } from './load.js';
import { keepsSome, oppositeCalls } from './opposite.js';
import { ofTransfer } from './pairs.js';
import { goesThroughList, lengthDefect, partDefect } from './parts.js';
import { withPassed } from './passing.js';
import { nameOfPlan, type Plan, takerIn, type Understood, whereOf } from './plan.js';
import { CALL_TTL_MS, CONNECTED_MS, GAP_MS, isOfTimer, namesInLock, type Played, played } from './played.js';
import { type Attempt, delayed } from './rehearsal.js';
import { looksOnlyBefore } from './repeats.js';
import type { Said } from './said.js';
import { sharesWatch } from './shared-watch.js';
import { DROPS_TTL, keyTooNarrow, RELEASES_UNCOMMITTED, STALE_READ } from './shown-defects.js';
import { differsByCase } from './spelling.js';
import { withStored } from './stored.js';
import type { Runnable } from './subject.js';
import { isSameValue, type Touch, touchesIn } from './touches.js';
import { ofTwoCalls, twoProcesses } from './two-calls.js';
import { twoNames } from './two-names.js';

/** What a function does with Redis under its lock, as one of its runs shows. */
interface Worked {
  readonly plan: Plan;
  readonly locks: ReadonlySet<string>;
  readonly touches: readonly Touch[];
  /** What it stores is made of what it has read before it had the lock. */
  readonly readsBefore: boolean;
}

/** Functions and pairs of them that are tried: each takes a few runs. */
const MOST_FUNCTIONS = 12;
const MOST_PAIRS = 4;

/** A value that differs when the same call comes so much later contains the time, ms. */
const LATER_MS = 7;

/** A command that is late is late by this share of the TTL of its lock. */
const LATE_SHARE = 0.4;

/** What is wrong with what exported functions do of their own work under locks. */
export async function functionDefects(subject: Runnable, plans: readonly Plan[]): Promise<readonly Defect[]> {
  const { nodes, admits, counts } = subject.how;
  const { plan: used } = subject.how;
  const functions = used.use === 'script' ? [used] : functionsIn(plans, used);
  if (admits > 1 || counts) return givenUpBy(subject, functions);
  // What looks like work that it is handed may be a part of its own.
  const handed = plans.filter(({ use }) => use === 'with').map((it): Plan => ({ ...it, use: 'handler' }));
  const named = twoNames(subject.bench.program.texts);
  const isPair = used.use === 'pair' && nodes === 1;
  const kept = isPair ? await keepsSome(subject, used) : null;
  const found = [
    ...(nodes === 1 && functions.length > 1 ? await lostChanges(subject, functions) : []),
    ...(named === null ? [] : [named]),
    ...(kept === null ? [] : [kept]),
  ];
  for (const plan of functions) {
    const own = await withData(subject, plan);
    const defect = nodes > 1 || plan.use === 'script' ? await ofOneCall(own, plan) : await ofCalls(own, plan);
    if (defect === null) continue;
    found.push({ ...defect, where: whereOf(subject.bench.program, plan) });
    break;
  }
  if (isPair && !subject.how.releases) found.push(...(await lostByUsers(subject, plans)));
  for (const plan of nodes === 1 ? functionsIn(handed, used) : []) {
    const stale = await staleRead(await withData(subject, plan), plan);
    if (stale !== null) found.push({ ...stale, where: whereOf(subject.bench.program, plan) });
  }
  return found;
}

/** What functions give up, and go on with, that only so many may do at a time. */
async function givenUpBy(subject: Runnable, functions: readonly Plan[]): Promise<readonly Defect[]> {
  if (!givesUp(subject)) return [];
  for (const plan of functions.filter(({ use }) => use === 'handler')) {
    const defect = await goesOnGivenUp(await withData(subject, plan), plan);
    if (defect !== null) return [{ ...defect, where: whereOf(subject.bench.program, plan) }];
  }
  return [];
}

/** What the functions of a file lose that take a key which nobody deletes: a message whose work has failed. */
async function lostByUsers(subject: Runnable, plans: readonly Plan[]): Promise<readonly Defect[]> {
  const ttlMs = subject.how.fixedTtlMs ?? CALL_TTL_MS;
  const users = plans.filter(({ use, path }) => use === 'handler' && path[0]?.kind === 'export');
  for (const plan of users.slice(0, MOST_FUNCTIONS)) {
    const [lost] = await losesFailed({ ...subject, how: { ...subject.how, plan }, ttlMs });
    if (lost !== undefined) return [{ ...lost, where: whereOf(subject.bench.program, plan) }];
  }
  return [];
}

/** What is wrong with what calls of a function do, on whichever nodes its lock is. */
async function ofOneCall(own: Runnable, plan: Plan): Promise<Defect | null> {
  if (plan.use === 'script') return lengthDefect(own, plan);
  return (
    (await uncommitted(own, plan)) ??
    (await ofTransfer(own, plan)) ??
    (await staleStore(own, plan)) ??
    (givesUp(own) ? await goesOnGivenUp(own, plan) : null) ??
    (await goesThroughList(own, plan))
  );
}

/** The same where messages to the one node of its lock can be late. */
async function ofCalls(own: Runnable, plan: Plan): Promise<Defect | null> {
  const two = await twoProcesses(own, plan);
  return (
    (two === null || isOfTimer(own, plan) ? null : await ofTwoCalls(two)) ??
    (await uncommitted(own, plan)) ??
    (await staleRead(own, plan)) ??
    (await ofOtherCalls(own, plan)) ??
    (await ofTransfer(own, plan)) ??
    (await differsByCase(own, plan)) ??
    (await sharesWatch(own, plan)) ??
    (await oppositeCalls(own, plan)) ??
    (await keepsSome(own, plan)) ??
    (await staleStore(own, plan)) ??
    (await ttlDropped(own, plan)) ??
    (await keptOnReturn(own, plan)) ??
    (await partDefect(own, plan)) ??
    (await looksOnlyBefore({ ...own, how: { ...own.how, plan }, ttlMs: own.how.fixedTtlMs ?? 0 }))
  );
}

/** Whether a function takes and releases the lock within one transaction, and works in between. */
async function uncommitted(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const [own] = await played(subject, [{ plan, atMs: 10 }]);
  if (own?.trial == null) return null;
  const { sent, key, calls, worksAfter, transactions } = own.trial;
  const of = (operation: Said['operation']): number =>
    sent.findIndex((it) => it.operation === operation && it.key === key);
  const [acquired, released] = [of('acquire'), of('release')];
  const works = worksAfter.some((after, i) => after > acquired && after <= released && isWork(calls[i] ?? ''));
  const isWithin = transactions.some(({ from, to }) => from <= acquired && to > released);
  return works && isWithin ? RELEASES_UNCOMMITTED : null;
}

/** Whether a function sets its key again without a TTL, where the lock by itself does not. */
async function ttlDropped({ bench, hosts, how }: Runnable, plan: Plan): Promise<Defect | null> {
  const ttlMs = how.fixedTtlMs ?? CALL_TTL_MS;
  const drops = async (of: Understood): Promise<boolean> => (await sentWhileHeld(bench, hosts, of, ttlMs)).dropsTtl;
  return how.plan.use !== 'handler' && (await drops({ ...how, plan })) && !(await drops(how)) ? DROPS_TTL : null;
}

/** The same with what a function reads stored, where it does more then, and with names of a form that files ask for, where it needs these. */
async function withData(subject: Runnable, plan: Plan): Promise<Runnable> {
  const bench = { ...subject.bench, finds: true };
  const run = async (of: Runnable): Promise<Attempt | null> => (await played(of, [{ plan, atMs: 10 }]))[0] ?? null;
  let own: Runnable = { ...subject, bench };
  let alone = await run(own);
  if (alone?.trial?.isGranted !== true && looksAtForm(bench.program.texts)) {
    const long = { ...own, how: { ...own.how, isLong: true } };
    const again = await run(long);
    if (again?.trial?.isGranted === true) [own, alone] = [long, again];
  }
  if (alone !== null) await withPassed(bench, await withStored(bench, alone, () => run(own)), () => run(own));
  return own;
}

/**
 * Whether two exported functions change the same value, each under a lock of its own: without faults but one late command, the change
 * of one is lost, as in no order of the two calls.
 */
async function lostChanges(subject: Runnable, functions: readonly Plan[]): Promise<readonly Defect[]> {
  const all: Worked[] = [];
  for (const plan of functions) all.push(...(await workedAlone(subject, plan)));
  const pairs = all.flatMap((one) => all.filter((two) => areApart(one, two)).map((two) => [one, two] as const));
  for (const [one, two] of pairs.slice(0, MOST_PAIRS)) {
    const key = await lostIn(subject, one, two);
    if (key !== null) return [defectOf(one, two, key, subject.bench)];
  }
  return [];
}

/** The exported functions that do work of their own, each once, and that which has the lock. */
function functionsIn(plans: readonly Plan[], found: Plan): readonly Plan[] {
  const { path, open = null, begin = [] } = found;
  const idOf = (it: Plan): string => JSON.stringify([it.path, it.take]);
  // A route is called from outside, whether or not it is exported.
  const isOpen = (it: Plan): boolean =>
    it.path[0]?.kind === 'export' || isRoute(takerIn(it)) || idOf(it) === idOf(found);
  const own = plans.filter((it) => it.use === 'handler' && isOpen(it));
  const all = own.filter((it, i) => own.findIndex((other) => idOf(other) === idOf(it)) === i).slice(0, MOST_FUNCTIONS);
  const isBeside = (it: Plan): boolean => JSON.stringify(it.path) === JSON.stringify(path);
  return all.map((it) => ({ ...it, begin, open: isBeside(it) ? open : null }));
}

/**
 * What a function stores under its lock of a value that it has read before that, while another call changes the value in between.
 *
 * @param next - The other call. Default: the same.
 */
async function staleRead(subject: Runnable, plan: Plan, next: Plan | null = null): Promise<Defect | null> {
  const [worked] = await workedAlone(subject, plan, true);
  const [other] = next === null ? [worked] : await workedAlone(subject, next, true);
  if (worked === undefined || other === undefined) return null;
  const before = next === null ? [worked, worked] : [];
  const key =
    (await lostAfter(subject, before, worked, other)) ?? (next === null ? await overwritten(subject, worked) : null);
  return key === null ? null : { ...STALE_READ, sentence: `${nameOfPlan(plan)} reads ${key} ${STALE_READ.sentence}` };
}

/** From a call to one that waits for its lock, ms. */
const SOON_MS = 1;

/** The key that a call overwrites after it has waited for the lock, and has read only before another call has stored there. */
async function overwritten(subject: Runnable, { plan, locks }: Worked): Promise<string | null> {
  const [first, second] = await played(subject, [
    { plan, atMs: CONNECTED_MS },
    { plan, atMs: CONNECTED_MS + SOON_MS },
  ]);
  const [own, other] = [first?.trial, second?.trial];
  if (own?.isGranted !== true || other?.isGranted !== true || own.key !== other.key) return null;
  const storedBy = ({ trial }: Attempt): readonly Touch[] =>
    trial === null ? [] : touchesIn(subject.bench, trial, locks, 0).filter(({ stored }) => stored !== null);
  const touches = touchesIn(subject.bench, other, locks, 0);
  // What need not be there is a cache, or says that work is done.
  const isThere = (key: string): boolean => subject.bench.stored.some(([, stored]) => stored === key);
  const isStale = ({ key, field, atMs }: Touch): boolean => {
    if (!isThere(key)) return false;
    const reads = touches.filter((it) => it.stored === null && it.key === key && it.field === field);
    const before = storedBy(first as Attempt).find((it) => it.key === key && it.field === field);
    const isBefore = (it: Touch): boolean => before !== undefined && it.atMs < before.atMs;
    return before !== undefined && before.atMs < atMs && reads.length > 0 && reads.every(isBefore);
  };
  return storedBy(second as Attempt).find(isStale)?.key ?? null;
}

/** Arguments that are tried as the one that two calls have in common. */
const MOST_COMMON = 4;

/** What is wrong where two calls of a function have one argument in common, or a property of one, and no other. */
async function ofOtherCalls(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const names = [...(alone?.trial?.names ?? [])];
  if (names.length < 2 || alone?.trial?.isGranted !== true) return null;
  for (const common of names.slice(0, MOST_COMMON)) {
    const next: Plan = { ...plan, differs: new Set(names.filter((it) => it !== common)) };
    const both = await withData(subject, next);
    const stale = await staleRead(both, plan, next);
    if (stale !== null) return stale;
    const [one] = await workedAlone(both, plan);
    const [two] = await workedAlone(both, next);
    if (one === undefined || two === undefined || !areApart(one, two)) continue;
    const key = (await lostAfter(both, [], one, two)) ?? (await lostIn(both, one, two));
    const more = key === null ? [] : (await namesInLock(both, plan, names)).filter((it) => it !== common);
    if (key === null || more.length === 0) continue;
    const locks = [one, two].map((it) => [...it.locks].join(' and '));
    return keyTooNarrow(nameOfPlan(plan), key, locks, more);
  }
  return null;
}

/** What a function does under its lock, where it takes one and uses values there: in two calls, as the first may find none. */
async function workedAlone(subject: Runnable, plan: Plan, readsBefore = false): Promise<readonly Worked[]> {
  const calls = [plan, plan].map((it, i) => ({ plan: it, atMs: 10 + i * GAP_MS }));
  const runs = (await played(subject, calls)).flatMap((it) => it?.trial ?? []);
  const sent = runs.flatMap((it) => it.sent);
  const asked = sent.filter(({ operation, ifNew }) => operation === 'acquire' && ifNew).map(({ key }) => key);
  const locks = new Set([...asked, ...runs.flatMap(({ key }) => key ?? [])]);
  const held = runs.filter(({ isGranted }) => isGranted);
  const touches = held.flatMap((trial) => touchesIn(subject.bench, trial, locks, readsBefore ? 0 : undefined));
  // What WATCH guards is not lost.
  const isWatched = sent.some(({ verb, key }) => verb === 'watch' && !locks.has(key));
  return touches.length === 0 || isWatched ? [] : [{ plan, locks, touches, readsBefore }];
}

/** Whether two functions use one value under locks that have nothing in common. */
function areApart(one: Worked, two: Worked): boolean {
  const isStored = one.touches.some((own) => own.stored !== null && two.touches.some((it) => isSameValue(own, it)));
  return one.plan !== two.plan && isStored && ![...one.locks].some((it) => two.locks.has(it));
}

/** The key of a value of which a change by the second function is lost when it comes between reading and storing of the first. */
async function lostIn(subject: Runnable, one: Worked, two: Worked): Promise<string | null> {
  // Some functions change nothing before others have.
  return (await lostAfter(subject, [one, one, two], one, two)) ?? (await lostAfter(subject, [two, two, one], one, two));
}

async function lostAfter(
  subject: Runnable,
  before: readonly Worked[],
  one: Worked,
  two: Worked,
): Promise<string | null> {
  const first = before.map(({ plan }, i) => ({ plan, atMs: 10 + i * GAP_MS }));
  const atMs = 10 + 5 * GAP_MS;
  /** The first function at `ownMs`, and the second at `otherMs`. */
  const plays = async (ownMs: number, otherMs: number, faults: readonly Fault[] = []): Promise<Played> => {
    const calls = [...first, { plan: one.plan, atMs: ownMs }, { plan: two.plan, atMs: otherMs }];
    return (await played(subject, calls, faults)).slice(first.length);
  };
  const [own, after] = await plays(atMs, atMs + 2 * GAP_MS);
  const storing = storedLast(subject, own, one);
  if (own === undefined || storing === undefined) return null;
  const of = (attempt: Attempt | undefined, by: Worked): Touch | undefined => storedLast(subject, attempt, by, storing);
  if (of(after, two) === undefined) return null;
  const [ownLater] = await plays(atMs + LATER_MS, atMs + 2 * GAP_MS);
  const [ownNext] = await plays(atMs, atMs - GAP_MS);
  const isOfData = of(ownLater, one)?.stored === storing.stored && of(ownNext, one)?.stored !== storing.stored;
  if (!isOfData) return null;
  const lateMs = LATE_SHARE * (own.trial?.ttlMs ?? 0);
  const asking = own.trial?.sent.find(({ operation, key }) => operation === 'acquire' && one.locks.has(key));
  const slow = one.readsBefore ? asking : storing;
  if (slow === undefined) return null;
  const sentMs = atMs + slow.atMs - own.askedMs;
  const late = delayed(own.client, 'n0', sentMs - 0.5, lateMs);
  const [stale, meanwhile] = await plays(atMs, sentMs + LATER_MS, [late]);
  const isBetween = of(meanwhile, two) !== undefined && Number(meanwhile?.leftMs) < slow.atMs + lateMs;
  return isBetween && of(stale, one)?.stored === storing.stored ? storing.key : null;
}

/** What a call that succeeds stores last, of a value that it has read before: under its lock, or only before that. */
function storedLast(
  { bench }: Runnable,
  attempt: Attempt | undefined,
  { locks, readsBefore }: Worked,
  like?: Touch,
): Touch | undefined {
  const { trial, held, error, releaseError } = attempt ?? {};
  if (!trial || !held || error !== null || releaseError !== null) return undefined;
  const touches = touchesIn(bench, trial, locks, readsBefore ? 0 : undefined);
  return touches.findLast((it, i) => {
    const reads = touches.slice(0, i).filter((before) => before.stored === null && isSameValue(before, it));
    const isRead = reads.length > 0 && (!readsBefore || reads.every(({ atMs }) => atMs < trial.grantedMs));
    return it.stored !== null && (like === undefined || isSameValue(it, like)) && isRead;
  });
}

function defectOf(one: Worked, two: Worked, key: string, { program }: Bench): Defect {
  const said = ({ plan }: Worked): string => `${nameOfPlan(plan)} (${whereOf(program, plan)})`;
  const [own, other] = [one, two].map(({ locks }) => [...locks].join(' and '));
  return {
    id: 'locks-apart',
    sentence: `${said(one)} and ${said(two)} both read ${key} and store a new value, but take different locks for it (${own} and ${other}): while one is between reading and storing, the other changes the value, and that change is overwritten`,
    fix: `take one lock in both, named after the data (${key}), or change the value by one atomic command or script that reads it itself`,
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
    where: whereOf(program, one.plan),
  };
}
