import { EPOCH_MS } from '../libraries/library-host.js';
import { UnsupportedClient } from '../libraries/session.js';
import type { Fault } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { nodeName } from '../sim/index.js';
import {
  asksOn,
  isCalledAfter,
  isGranted,
  isTaken,
  nodesOf,
  optimisticIn,
  releasesIn,
  setsKey,
  waitsIn,
} from './attempts.js';
import { functionDefects } from './beside.js';
import type { Defect } from './defect.js';
import { serversIn } from './environment.js';
import { examine, type Seen } from './examine.js';
import { looksAtForm } from './forms.js';
import { refusalIn, releaserIn } from './held.js';
import { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import { ownersIn } from './owners.js';
import { missingImport } from './packages.js';
import { withPassed } from './passing.js';
import {
  NOTHING_KNOWN,
  nameOfPlan,
  type Plan,
  type RefusalSign,
  saysWhether,
  takerIn,
  type Understood,
} from './plan.js';
import { chosen, plansIn } from './plans.js';
import { MOST_NODES, NotGivenError, notFound, OptimisticError, UNRELEASED, UNSAID } from './refusal.js';
import { type Attempt, calm, rehearse, use } from './rehearsal.js';
import type { Hints } from './result.js';
import { mayGiveTtl } from './roles.js';
import { isAdded, setsAnyway } from './said.js';
import { LOOKS_BEFORE, STALE_READ } from './shown-defects.js';
import { withStored } from './stored.js';
import { isTaker } from './surface.js';
import { CAMPAIGNS } from './terms.js';
import { FIRST_TTL_MS } from './units.js';
import { judgeUpdates } from './updates.js';

/** A lock, as one way to use it shows it. */
export interface TriedLock {
  readonly how: Understood;
  readonly hosts: Hosts;
  readonly seen: Seen;
}

/** A lock that was found in a file. */
export interface FoundLock extends TriedLock {
  /** All ways that were found to use the file. */
  readonly plans: readonly Plan[];
}

const MOST_PLANS = 16;

/** Functions that are handed work, and are tried as ones that do work of their own. */
const MOST_OWN_WORK = 3;

/** For how long the first acquisition is held, ms: no client gives up a release that is kept back for no longer. */
const FIRST_HOLD_MS = 200;

/** Finds out how the lock in a file is used. @throws InputError in one sentence for a file in which none is found. */
export async function understand(bench: Bench, hints: Hints): Promise<FoundLock> {
  const hosts = new Hosts(MOST_NODES);
  const problems: unknown[] = [];
  let plans: Plan[] = [];
  let storing: Plan | null = null;
  const foundBy = async (plan: Plan): Promise<TriedLock | null> => {
    bench.wire.counts = false;
    bench.wire.setsBefore = false;
    return await tried(bench, plan, hints);
  };
  // Where nothing works, something may have to be begun first.
  for (const isBegun of [false, true]) {
    const more = await plansIn(bench, hosts, isBegun);
    if (isBegun && !more.some(({ begin = [] }) => begin.length > 0)) break;
    plans = chosen(more, hints, bench.program.name);
    // A function may call the work that it is handed only for the jobs of a queue, which is empty here.
    const ownWork = plans.filter((it) => it.use === 'with').map((it): Plan => ({ ...it, use: 'handler' }));
    for (const plan of [...plans.slice(0, MOST_PLANS), ...ownWork.slice(0, MOST_OWN_WORK)]) {
      try {
        const lock = await foundBy(plan);
        if (lock === null) continue;
        if (onlyStores(lock)) storing ??= plan;
        else if (!isLeftToOthers(lock.how, plans)) return withOthers(bench, lock, plans);
        else problems.push(new NotGivenError(nameOfPlan(plan), UNRELEASED));
      } catch (error) {
        problems.push(error);
      }
    }
  }
  const stored = storing === null ? null : await foundBy(storing);
  if (stored !== null) return withOthers(bench, stored, plans);
  const updates = problems.filter((it) => it instanceof OptimisticError);
  const [judged] = [...updates.filter((it) => it.judged.defect !== null), ...updates];
  if (judged !== undefined) throw judged;
  const { name, missing } = bench.program;
  // It may be what the lock is made of.
  const [first] = missing;
  if (first !== undefined) throw new InputError(missingImport(name, first));
  throw notFound(name, plans, problems);
}

/** The same with what the other functions of the file do under their locks. */
async function withOthers(bench: Bench, found: TriedLock, plans: readonly Plan[]): Promise<FoundLock> {
  const { shown } = found.seen;
  const others = await functionDefects({ ...found, bench }, plans).catch((error) => {
    // What another function connects to besides says nothing of this one.
    if (error instanceof UnsupportedClient) return [];
    throw error;
  });
  // What is only looked for before the lock is not read again either.
  const isSaid = ({ id }: Defect): boolean => id === STALE_READ.id && shown.some((it) => it.id === LOOKS_BEFORE.id);
  return { ...found, plans, seen: { ...found.seen, shown: [...shown, ...others.filter((it) => !isSaid(it))] } };
}

/** Whether a function that does its own work stores a value for others in passing: it asks for nothing, and frees nothing. */
function onlyStores({ how: { plan, releases }, seen }: TriedLock): boolean {
  const { key, sent = [] } = seen.alone.trial ?? {};
  const stored = sent.find(({ operation, key: of }) => operation === 'acquire' && of === key);
  return plan.use === 'handler' && !releases && stored !== undefined && setsAnyway(stored);
}

/** Whether it is kept from others by a file, and what that exports releases it, which could not be used. */
function isLeftToOthers({ plan, releases }: Understood, plans: readonly Plan[]): boolean {
  const isInside = ({ path }: Plan): boolean => path[0]?.kind === 'inside';
  return plan.use === 'pair' && plan.give === null && !releases && isInside(plan) && !plans.every(isInside);
}

/** Uses a lock in one of the ways, or where that fails once it has been opened; `null` where that is none. */
export async function tried(bench: Bench, { open, ...plan }: Plan, hints: Hints): Promise<TriedLock | null> {
  if (!open) return triedOnce(bench, plan, hints);
  let problem: unknown = null;
  const found = await triedOnce(bench, plan, hints).catch((error: unknown) => {
    problem = error;
    return null;
  });
  const opened = found ?? (await triedOnce(bench, { ...plan, open }, hints).catch(() => null));
  if (opened === null && problem !== null) throw problem;
  return opened;
}

async function triedOnce(bench: Bench, plan: Plan, hints: Hints): Promise<TriedLock | null> {
  // What seems to do its own work may give something that releases.
  const found =
    plan.use === 'handler' ? await triedAs(bench, { ...plan, use: 'pair' }, hints).catch(otherThanNotGiven) : null;
  return found ?? (await triedAs(bench, plan, hints));
}

function otherThanNotGiven(error: unknown): null {
  if (error instanceof NotGivenError) return null;
  throw error;
}

/** What may begin work that takes its lock by itself, each time, and gives what ends that. */
const BEGINS = /^_?(?:start|begin)/i;

/** Whether the lock was released before it was to be, and nothing was sent for it then. */
function isOwnRelease(trial: Attempt['trial'], releasedMs: number): boolean {
  const own = trial?.sent.filter(({ key }) => key === trial.key) ?? [];
  return (
    own.some(({ operation, atMs }) => operation === 'release' && atMs < releasedMs) &&
    own.every(({ atMs }) => atMs < releasedMs)
  );
}

/** Whether an acquisition has ended with what may be a lock that is held. */
function isPlausible({ held, isOver, releasedMs, trial }: Attempt, plan: Plan): boolean {
  const { use, give } = plan;
  if (use !== 'pair') return true;
  // What answers a request has done its work.
  if (isOver || held?.result instanceof Response) return false;
  if (BEGINS.test(takerIn(plan)) && isOwnRelease(trial, releasedMs)) return false;
  if (give !== null || isTaker(takerIn(plan))) return true;
  // A factory asks for nothing. What it returns asks for the key, and so is no release.
  const asking = trial?.sent.find(({ operation }) => operation === 'acquire');
  return releaserIn(held?.result) !== null && !((asking?.atMs ?? Number.NaN) >= releasedMs);
}

/**
 * How what it is given may be: without what it can do without, or with names of a form that it asks for; where it does nothing with any of
 * these, conditions are passed over.
 */
const WAYS: readonly (Pick<Understood, 'isBare' | 'isLong'> & { readonly passes: boolean })[] = [
  { isBare: false, isLong: false, passes: false },
  { isBare: true, isLong: false, passes: false },
  { isBare: false, isLong: true, passes: false },
  { isBare: false, isLong: false, passes: true },
];

/** What is tried first of work of its own: with the TTL that its author chose, where it may be given another one. */
const OWN_TTL = { isBare: true, isLong: false, passes: false };

async function triedAs(bench: Bench, plan: Plan, hints: Hints): Promise<TriedLock | null> {
  const servers = serversIn(bench.program.sources);
  const most = hints.nodes ?? servers ?? MOST_NODES;
  const isOpen = hints.nodes === undefined && servers === null;
  let problem: NotGivenError | null = null;
  const texts = bench.program.texts;
  const mayBeGiven = plan.use === 'handler' && bench.program.shapes.some(mayGiveTtl);
  // What its options were given may be the reason why it gives no lock.
  for (const way of mayBeGiven ? [OWN_TTL, ...WAYS] : WAYS) {
    const { isBare, isLong, passes } = way;
    const isOwn = way === OWN_TTL;
    // One that has sent nothing may want another name, one that has set a key may want fewer options.
    if (!isOwn && (isBare ? problem === null : isLong && (problem !== null || !looksAtForm(texts)))) continue;
    if (passes && problem !== null) continue;
    const hosts = new Hosts(hints.nodes ?? Math.max(most, MOST_NODES));
    const first: Understood = {
      ...NOTHING_KNOWN,
      plan,
      nodes: most,
      isOpen,
      client: bench.clients.kind,
      isBare,
      isLong,
    };
    const looking = await firstLook(bench, hosts, first, passes);
    if (isOwn && (looking === null || !isTaken(looking) || looking.trial?.ttlMs == null)) continue;
    if (looking === null) break;
    const updated = optimisticIn(looking);
    if (updated !== null) {
      const judged = await judgeUpdates({ bench, hosts, how: { ...first, nodes: 1 } }, plan, updated);
      throw new OptimisticError(plan, updated, judged);
    }
    if (isTaken(looking)) return isPlausible(looking, plan) ? triedWith(bench, hosts, first, looking, hints) : null;
    if (setsKey(looking)) problem ??= new NotGivenError(nameOfPlan(plan), looking.error);
  }
  if (problem !== null && plan.use !== 'handler') throw problem;
  return null;
}

async function triedWith(
  bench: Bench,
  hosts: Hosts,
  first: Understood,
  looking: Attempt,
  hints: Hints,
): Promise<TriedLock | null> {
  const { plan } = first;
  bench.wire.setsBefore = looking.trial?.setsBefore ?? false;
  const asked = hints.nodes ?? nodesOf(looking);
  const asksOne = asked === 1 && hosts.met > 1 && (await failsOver(bench, hosts, first, looking));
  // One that asks for a majority asks all the servers that it names.
  const nodes = asksOne ? hosts.met : asked > 1 ? Math.max(asked, hosts.named) : asked;
  const narrowed = new Hosts(Math.max(nodes, hosts.met), nodes === 1 && hosts.met > 1);
  let how: Understood = {
    ...first,
    isOpen: first.isOpen && hosts.named === 0,
    asksOne,
    nodes: Math.max(1, nodes),
    voidHolds: looking.held === null || looking.held.result === undefined,
  };
  how = { ...how, ...lifetimeOf(looking, how), callsWork: (looking.trial?.works.length ?? 0) > 0 };
  let again = await firstUse(bench, narrowed, how, how.nodes);
  if (again === null || !isTaken(again) || (plan.use === 'with' && isCalledAfter(again))) return null;
  if (plan.use === 'with' && !releasesIn(again) && typeof again.held?.result === 'function') {
    const handed = await firstUse(bench, narrowed, { ...how, handsRelease: true }, how.nodes);
    if (handed !== null && releasesIn(handed)) {
      how = { ...how, handsRelease: true };
      again = handed;
    }
  }
  how = { ...how, counts: bench.wire.counts };
  if (plan.use === 'pair' && looking.trial?.value === again.trial?.value) {
    const owners = await ownersIn({ bench, hosts: narrowed, how }, plan, again.trial?.names ?? []);
    how = { ...how, plan: { ...plan, owners } };
  }
  const { sign } = again;
  const isVoid = how.voidHolds && plan.use === 'pair';
  const isEarly = !(again.acquiredMs >= (again.trial?.grantedMs ?? Number.NaN));
  // One that gives nothing, and is asked who has it, need not have it when its call returns.
  const campaigns = isEarly && (saysWhether({ plan, voidHolds: how.voidHolds, sign }) || sign?.of === 'told');
  if (isVoid && isEarly && !campaigns) throw new NotGivenError(nameOfPlan(plan), UNSAID);
  const known = {
    ...how,
    ...lifetimeOf(again, how),
    releases: releasesIn(again),
    waits: waitsIn(again),
    sign,
    campaigns,
    refusal: plan.use === 'pair' && !isVoid ? await refusalFor(bench, narrowed, how) : null,
  };
  const found = { hosts: narrowed, ...(await examine(bench, narrowed, known, again)) };
  if (!isVoid || campaigns || !asksOn(found.seen.both[1])) return found;
  if (!saysWhether(known)) throw new NotGivenError(nameOfPlan(plan), UNSAID);
  return { ...found, ...(await examine(bench, narrowed, { ...known, campaigns: true }, again)) };
}

/** Whether it takes the lock on another of its servers where the one is dead on which it has taken it. */
async function failsOver(bench: Bench, hosts: Hosts, how: Understood, { trial }: Attempt): Promise<boolean> {
  const schedule = calm(hosts.met, [[use(1_000, FIRST_TTL_MS, FIRST_HOLD_MS)]], 60_000_000);
  bench.wire.neededAtFirst = 1;
  try {
    const asked = trial?.sent.find(({ operation, key }) => operation === 'acquire' && key === trial.key)?.node ?? 0;
    const dies: Fault = { kind: 'crash', node: nodeName(asked), atUs: 0, restartAfterUs: null };
    const [attempt] = await rehearse(bench, hosts, how, { ...schedule, faults: [dies] });
    return attempt !== undefined && isTaken(attempt);
  } finally {
    bench.wire.neededAtFirst = null;
  }
}

/** What two processes are given that ask while another one holds the lock, where that is not what one is given that gets it. */
async function refusalFor(bench: Bench, hosts: Hosts, how: Understood): Promise<RefusalSign | null> {
  const ttlMs = how.fixedTtlMs ?? FIRST_TTL_MS;
  // Who was refused may release the lock of another all the same.
  const asks = [10, ttlMs / 20, ttlMs / 10].map((atMs) => [use(atMs, ttlMs, ttlMs * 0.9)]);
  const attempts = await rehearse(bench, hosts, how, calm(how.nodes, asks, (2 * ttlMs + 60_000) * 1000));
  const [granted, one, two] = ['c1', 'c2', 'c3'].map((name) => attempts.find(({ client }) => client === name));
  const isRefused = (it: Attempt | undefined): boolean => it?.held != null && it.trial?.isGranted === false;
  if (!granted?.held || !isRefused(one) || !isRefused(two)) return null;
  return refusalIn(granted.held.result, [one?.held?.result, two?.held?.result]);
}

/** Uses the lock once, with nothing stored; where it reads what is not there, with that, if it does more then. */
async function firstLook(bench: Bench, hosts: Hosts, how: Understood, passes: boolean): Promise<Attempt | null> {
  Object.assign(bench, { stored: [], finds: true, passed: new Set() });
  const looking = await firstUse(bench, hosts, how, 1);
  if (looking === null || (how.plan.use !== 'handler' && isTaken(looking))) return looking;
  const run = (): Promise<Attempt | null> => firstUse(bench, hosts, how, 1);
  const stored = await withStored(bench, looking, run);
  return passes || isTaken(stored) ? withPassed(bench, stored, run) : stored;
}

/** Uses the lock once; where it sets no key, what adds one to those who have a key may be what acquires. */
async function firstUse(bench: Bench, hosts: Hosts, how: Understood, needed: number): Promise<Attempt | null> {
  const once = await oneUse(bench, hosts, how, { needed });
  const { use, take } = how.plan;
  // A timer may ask for the first time when its interval is over.
  const asksLater = use === 'pair' && CAMPAIGNS.test(take) && once !== null && !setsKey(once);
  const attempt = asksLater ? await oneUse(bench, hosts, how, { needed, holdMs: CAMPAIGN_MS }) : once;
  const { wire } = bench;
  if (wire.counts || attempt === null || setsKey(attempt) || (use !== 'with' && use !== 'pair')) return attempt;
  if (attempt.trial?.sent.some(isAdded) !== true) return attempt;
  wire.counts = true;
  const counted = await oneUse(bench, hosts, how, { needed });
  if (counted !== null && isTaken(counted) && releasesIn(counted)) return counted;
  wire.counts = false;
  return attempt;
}

/** For how long one that campaigns is left to it, ms: it may ask no earlier than when its interval is over. */
const CAMPAIGN_MS = 12_000;

/** When it is used first, ms. */
const FIRST_MS = 10;

/** Uses the lock once; where nothing that it gives is a lock, what it gives nothing for may be. */
async function oneUse(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  { needed, holdMs = FIRST_HOLD_MS }: { readonly needed: number; readonly holdMs?: number },
): Promise<Attempt | null> {
  const nodes = needed === 1 && how.nodes > 1 ? hosts.most : needed;
  const schedule = calm(nodes, [[use(FIRST_MS, FIRST_TTL_MS, holdMs)]], 60_000_000);
  bench.wire.neededAtFirst = needed === 1 ? 1 : null;
  try {
    const [attempt] = await rehearse(bench, hosts, how, schedule, { looks: true });
    const readyMs = Number(attempt?.askedMs) - EPOCH_MS - FIRST_MS;
    bench.readyAfterUs = readyMs > 0 ? Math.round(readyMs * 1000) : 0;
    if (how.voidHolds || attempt === undefined || !isGranted(attempt) || attempt.held !== null) return attempt ?? null;
    const [another] = await rehearse(bench, hosts, { ...how, voidHolds: true }, schedule, { looks: true });
    return another ?? null;
  } finally {
    bench.wire.neededAtFirst = null;
  }
}

/** Whether the lock's TTL is what was asked for, and in which unit; else what it is. */
function lifetimeOf({ trial }: Attempt, { plan, unitMs }: Understood): Pick<Understood, 'unitMs' | 'fixedTtlMs'> {
  const ttlMs = trial?.ttlMs ?? null;
  if (plan.use === 'handler' || plan.use === 'script') return { unitMs, fixedTtlMs: ttlMs };
  // A time in the value counts from when it was read, which is before the command was sent.
  const mayDifferMs = trial?.endsByValue ? 50 : 0;
  const isGiven = ttlMs !== null && Math.abs(ttlMs - FIRST_TTL_MS) <= mayDifferMs;
  if (isGiven) return { unitMs, fixedTtlMs: null };
  if (ttlMs === FIRST_TTL_MS * 1000 && unitMs === 1) return { unitMs: 1000, fixedTtlMs: null };
  return { unitMs, fixedTtlMs: ttlMs };
}
