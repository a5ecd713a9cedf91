import { current } from '../libraries/runtime/owner.js';
import type { LockPlan, Schedule } from '../scenarios/index.js';
import { isWork } from './called.js';
import { type Capacity, capacityOf } from './capacity.js';
import { isOwnWork } from './cases.js';
import { type Claims, claimsIn } from './claims.js';
import { redlockIn } from './clients.js';
import type { Defect } from './defect.js';
import { isLostInFailover } from './failover.js';
import { comparisonsIn, type Fence, fencesOf } from './fences.js';
import type { Hosts } from './hosts.js';
import { mistakesAnswers } from './late-answers.js';
import {
  deletesLate,
  isTakenOver,
  remembers,
  requestDefects,
  type SentWhileHeld,
  sentWhileHeld,
  staysWithoutTtl,
} from './leavings.js';
import { type Bench, textIn } from './load.js';
import { type InOutages, inOutages } from './outages.js';
import type { Understood } from './plan.js';
import { hasOwnConnections } from './program.js';
import { type TwoReaders, twoReaders } from './readers.js';
import { type Attempt, calm, heldNow, REST_MS, rehearse, use, type Ways, withClock } from './rehearsal.js';
import { isCache } from './repeats.js';
import type { Said } from './said.js';
import { ignoredOptions } from './set-options.js';
import type { Subject } from './subject.js';
import { targetedDefects } from './targeted.js';
import { type TwoTasks, twoTasks } from './tasks.js';
import { FIRST_TTL_MS, type Named, namedAs } from './units.js';
import { type Untold, untoldOf } from './untold.js';

/** What was seen of a lock while it was used with nothing in its way. */
export interface Seen extends Omit<TwoTasks, 'besides'>, InOutages, Untold, SentWhileHeld, Claims {
  readonly readers: TwoReaders;
  /** How many may hold it at once. */
  readonly capacity: Capacity;
  /** One acquisition by itself. */
  readonly alone: Attempt;
  /** Two of two processes: the second asks while the first holds the lock. */
  readonly both: readonly Attempt[];
  /** Two of two processes that ask at once. */
  readonly raced: readonly Attempt[];
  /** Options of SET that its client ignores, as the beginning of a sentence; empty for none. */
  readonly ignored: string;
  /** It imports the package redlock. */
  readonly usesRedlock: boolean;
  /** It was granted to a process whose clock is ahead, though another one held it. */
  readonly takenByClock: boolean;
  /** One that is not given the TTL that it can do without; `null` where it is given none, or needs one. */
  readonly bare: Attempt | null;
  /** What the file calls the number of its TTL in ms, and in seconds. */
  readonly named: { readonly ms: Named | null; readonly seconds: Named | null };
  /** Of three acquisitions after each other, the last of another process; empty where there are none. */
  readonly fences: readonly Fence[];
  /** A script compares fencing tokens as texts. */
  readonly comparesTokens: boolean;
  /** It stores a fencing token whatever token there is. */
  readonly storesAny: boolean;
  /** The lock was held for three TTLs; `null` where that was not tried. */
  readonly renewed: Attempt | null;
  /** It was extended while it was held; `null` where it cannot be. */
  readonly extended: Attempt | null;
  /** Its work threw; `null` where that was not tried. */
  readonly thrown: Attempt | null;
  /** How long a function's own work takes, ms; `null` where it is handed work. */
  readonly ownWorkMs: number | null;
  /** One held the lock and released it, and another asked after that, before the TTL of the first was over. */
  readonly next: readonly Attempt[];
  /** It waits for a replica, and is held without: a failover gives it to another process. */
  readonly lostInFailover: boolean;
  /** The function that releases is handed what was acquired as it is. */
  readonly handsBack: boolean;
  /** Its key has no end, and another process takes it over where its holder has died: by what is not known. */
  readonly takenOver: boolean;
  /** Its process has died before it sent the command that gives its key a TTL: nobody gets the lock again. */
  readonly staysWithoutTtl: boolean;
  /** Without the lock, it has done of its own work all that it does with it: refused, and where its node is dead. */
  readonly worksRefused: boolean;
  readonly worksUnasked: boolean;
  /** A process that asks again, long after its lock has run out, sends nothing, and has it. */
  readonly remembers: boolean;
  /** The release of one whose key expires meanwhile deletes that of the next, and a third process acquires. */
  readonly deletesLate: boolean;
  /** The text of a command that is a script. */
  readonly textOf: (said: Said) => string;
  /** The late answer to what it has given up is taken for that to a later command. */
  readonly mistakesAnswers: boolean;
  /** Defects that schedules made for them have shown. */
  readonly shown: readonly Defect[];
}

/** A key that is made of the time is another one so much later, ms. */
const LATER_MS = 86_400_000;

/** Uses a lock in several ways with nothing in its way, and keeps what is seen of it. */
export async function examine(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  alone: Attempt,
): Promise<{ readonly how: Understood; readonly seen: Seen }> {
  const ttlMs = how.fixedTtlMs ?? FIRST_TTL_MS;
  const partMs = ttlMs / 3;
  const playing = (as: Understood) => (clients: readonly LockPlan[], ways?: Ways) =>
    rehearse(bench, hosts, as, calmFor(clients, as, ttlMs), ways);
  const ownWork = isOwnWork(how);
  const { known, capacity, renewed } = await learnt(bench, hosts, how, alone);
  const plays = playing(known);
  const held = use(10, ttlMs, partMs);
  // A release that is kept back until the planned end of the work may run into a time-out of its client.
  const next = await plays([use(10, ttlMs, partMs / 4), use(10 + partMs, ttlMs, 1)], { naturally: ownWork });
  const two = [held, use(10 + partMs / 2, ttlMs, partMs / 4)];
  const both = await plays(two);
  const ahead = await rehearse(bench, hosts, known, withClock(calmFor(two, known, ttlMs), 'c2', 2 * ttlMs));
  const extensions = [{ afterUs: Math.round(partMs * 500), ttlMs }];
  const [extended] = how.plan.use === 'pair' ? await plays([{ ...held, extensions }]) : [];
  const throwing = waysToThrow(bench, how);
  const [thrown] = throwing === null ? [] : await plays([ownWork ? use(10, ttlMs, 1) : held], throwing);
  const [bare] = how.fixedTtlMs === null ? await playing({ ...known, isBare: true })([use(10, ttlMs, 1)]) : [];
  const { besides, ...tasks } = await twoTasks(bench, hosts, known, ttlMs);
  const outages = await inOutages(bench, hosts, known, ttlMs);
  const subject = { bench, hosts, how: { ...known, besides }, ttlMs, alone };
  const worksRefused = ownWork && (worksAlike(alone, both[1]) || (await worksWhileRefused(subject, plays)));
  return {
    how: {
      ...known,
      keyVaries: (await plays([use(ttlMs + LATER_MS, ttlMs, 1)]))[0]?.trial?.key !== alone.trial?.key,
      // Two tasks of the process that reads may well read at once.
      besides: how.plan.shared === undefined && known.admits === 1 ? besides : [],
    },
    seen: {
      ...tasks,
      capacity,
      readers: await twoReaders(bench, hosts, known, ttlMs),
      ...outages,
      lostInFailover: known.waits && !ownWork && (await isLostInFailover(bench, hosts, known, ttlMs)),
      alone,
      both,
      raced: await plays([held, held]),
      takenByClock: isHeldByBoth(ahead, 2 * ttlMs) && !isHeldByBoth(both, 0),
      bare: bare ?? null,
      named: namedIn(bench, (how.fixedTtlMs === null ? bare : alone)?.trial?.ttlMs ?? Number.NaN),
      fences: await fencesOf(bench, hosts, known, ttlMs),
      renewed: renewed ?? null,
      extended: extended ?? null,
      thrown: thrown ?? null,
      ownWorkMs: ownWork ? workIn(next[0]) : null,
      handsBack: handsBack(bench, how, alone),
      takenOver: isEndless(alone) && !known.counts && (await isTakenOver(bench, hosts, known, ttlMs)),
      worksRefused,
      worksUnasked: ownWork && known.admits === 1 && !known.counts && worksUnasked(alone, outages.unreached?.attempt),
      staysWithoutTtl: await staysWithoutTtl(subject),
      remembers: !ownWork && (await remembers(bench, hosts, known, ttlMs)),
      deletesLate: known.releases && nodesAreOne(known) && (await deletesLate(bench, hosts, known, ttlMs)),
      ...(await sentWhileHeld(bench, hosts, known, ttlMs)),
      textOf: (said) => textIn(bench, said),
      mistakesAnswers: hasOwnConnections(bench.program) && !worksRefused && (await mistakesAnswers(subject)),
      ...(await untoldOf(subject, alone.trial?.loops ?? false)),
      shown: [...(await targetedDefects(subject)), ...(await requestDefects(subject))],
      next,
      ...saidIn(bench),
    },
  };
}

/** What its files say, and not what it does. */
function saidIn(bench: Bench): Claims & ReturnType<typeof comparisonsIn> & Pick<Seen, 'ignored' | 'usesRedlock'> {
  const { texts } = bench.program;
  const usesRedlock = redlockIn(texts) !== undefined;
  return { ...comparisonsIn(bench), ...claimsIn(texts), ignored: ignoredOptions(bench), usesRedlock };
}

/** How the work under a lock is made to throw, where that can be. */
function waysToThrow(bench: Bench, how: Understood): Ways | null {
  if (how.plan.use === 'with') return { throws: true };
  const takes = (): Promise<void> =>
    heldNow(bench) === null ? Promise.resolve() : Promise.reject(new Error('it failed'));
  return isOwnWork(how) ? { naturally: true, takes } : null;
}

/** What shows of a lock that is held for long: whether it renews itself, and how many it lets in. */
async function learnt(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  alone: Attempt,
): Promise<{ readonly known: Understood; readonly capacity: Capacity; readonly renewed: Attempt | undefined }> {
  const ttlMs = how.fixedTtlMs ?? FIRST_TTL_MS;
  const held = async (forMs: number): Promise<Attempt | undefined> =>
    (await rehearse(bench, hosts, how, calmFor([use(10, ttlMs, forMs)], how, ttlMs)))[0];
  const ownWork = isOwnWork(how);
  const renewed = ownWork ? undefined : await held(3 * ttlMs);
  const late = ownWork ? undefined : await held(0.95 * ttlMs);
  const used = {
    ...how,
    renews: renewed !== undefined && isRenewed(renewed, ttlMs),
    rejectsLate: alone.releaseError === null && (late?.releaseError ?? null) !== null,
  };
  const capacity = await capacityOf(bench, hosts, used, ttlMs);
  const { admits, lastsShare } = capacity;
  const works = new Set(alone.trial?.works.map((it) => it.split(' ', 1)[0] ?? ''));
  const lastWork = [...works].at(-1) ?? null;
  return { known: { ...used, admits, lastsShare, lastWork }, capacity, renewed };
}

/** Each of these of a client of its own, with time for all of it. */
function calmFor(uses: readonly LockPlan[], { nodes }: Understood, ttlMs: number): Schedule {
  const lastMs = Math.max(...uses.map(({ atUs }) => atUs / 1000)) + 8 * ttlMs + 2 * REST_MS;
  return calm(
    nodes,
    uses.map((it) => [it]),
    lastMs * 1000,
  );
}

/** What a file calls the number of a TTL, ms. */
function namedIn({ program: { sources } }: Bench, ttlMs: number): Seen['named'] {
  return { ms: namedAs(sources, ttlMs), seconds: namedAs(sources, ttlMs / 1000) };
}

/** Whether a function that releases has one parameter, and what was acquired has all that it reads of it. */
function handsBack({ program }: Bench, { plan }: Understood, { held }: Attempt): boolean {
  const parameters = program.shapes.find(({ name }) => name === plan.give)?.parameters ?? [];
  const result = held?.result;
  return (
    parameters.length === 1 &&
    typeof result === 'object' &&
    result !== null &&
    parameters.every(({ fields }) => fields.every(({ name }) => name in result))
  );
}

function isEndless({ trial }: Attempt): boolean {
  return trial !== null && trial.ttlMs === null && !trial.endsByValue;
}

/** A name that is drawn for each thing. */
const DRAWN = /[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}|[\da-f]{16,}/g;

/** What keeps work for later, as the file does where it is loaded. */
const SCHEDULES = /(?:^|\.)schedule(?:Job)?(?: |$)/;

/**
 * Whether a process that was refused the key has called, and sent to Redis, all that one does that has it, in the same order, and has
 * done more than look and respond: it has worked, or has released the lock after it has asked for data.
 */
function worksAlike({ trial }: Attempt, refused: Attempt | undefined): boolean {
  // What it stores may be named after its token, or by chance.
  const works = (of: Attempt['trial'] | undefined): string[] => [
    ...(of?.works ?? [])
      .filter((it) => !SCHEDULES.test(it))
      .map((it) => (of?.value ? it.replaceAll(of.value, '') : it).replaceAll(DRAWN, '')),
    ...(of?.sent ?? []).filter(({ key }) => key !== '' && key !== of?.key).map(({ verb, key }) => `${verb} ${key}`),
  ];
  const [own, other] = [works(trial), works(refused?.trial)];
  const isSame = own.length === other.length && own.every((it, i) => it === other[i]);
  if (refused?.trial?.isGranted !== false || !isSame) return false;
  return (trial?.works ?? []).some(isWork) || (asksAndReleases(trial) && asksAndReleases(refused.trial));
}

/** Whether an acquisition asks for other data after its key, and then releases the lock. */
function asksAndReleases(trial: Attempt['trial']): boolean {
  const sent = trial?.sent ?? [];
  const after = sent.slice(sent.findLastIndex(({ operation }) => operation === 'acquire') + 1);
  const released = after.findIndex(({ operation, key }) => operation === 'release' && key === trial?.key);
  return after.slice(0, Math.max(0, released)).some(({ key }) => key !== '' && key !== trial?.key);
}

/**
 * Whether a process works alike while another one has the lock, and has not changed any data yet. It may for what is only cached.
 *
 * @param plays - Plays acquisitions of a client each.
 */
async function worksWhileRefused(
  subject: Subject,
  plays: (clients: readonly LockPlan[], ways?: Ways) => Promise<readonly Attempt[]>,
): Promise<boolean> {
  const { alone, ttlMs } = subject;
  const uses = [10, 10 + ttlMs / 8].map((atMs) => use(atMs, ttlMs, 1));
  // What takes long has a time limit in some files: the second process works as it does alone.
  for (const isQuick of [false, true]) {
    const takes = async (): Promise<void> => {
      if (!isQuick || current.owner?.name !== 'c2') await new Promise((resolve) => setTimeout(resolve, ttlMs / 2));
    };
    const [first, refused] = await plays(uses, { naturally: true, takes });
    if (first?.trial?.isGranted === true && worksAlike(alone, refused)) return !(await isCache(subject));
  }
  return false;
}

/** Whether a process that could not ask for the key has called all that one calls that has it, in its order: besides, it may log. */
function worksUnasked({ trial }: Attempt, unasked: Attempt | undefined): boolean {
  const own = trial?.works ?? [];
  let called = 0;
  for (const it of unasked?.trial?.calls ?? []) if (it === own[called]) called++;
  return unasked?.trial?.isGranted === false && own.some(isWork) && called === own.length;
}

function nodesAreOne({ nodes, admits, counts }: Understood): boolean {
  return nodes === 1 && admits === 1 && !counts;
}

/** @param aheadMs - The clock of the second process is so far ahead of the first one's. */
function isHeldByBoth([one, two]: readonly Attempt[], aheadMs: number): boolean {
  if (one === undefined || two === undefined) return false;
  // A key with the day in it is another one on a clock that is ahead.
  const isOther = one.trial !== null && two.trial !== null && one.trial.key !== two.trial.key;
  return !isOther && two.acquiredMs - aheadMs < one.releasedMs;
}

/** It was extended later than as it was acquired, while its work went on. */
function isRenewed({ trial, acquiredMs, releasedMs }: Attempt, ttlMs: number): boolean {
  const isBetween = (atMs: number): boolean => atMs > acquiredMs + ttlMs / 20 && !(atMs >= releasedMs);
  return trial?.sent.some((it) => it.operation === 'extend' && it.key === trial.key && isBetween(it.atMs)) ?? false;
}

function workIn(natural: Attempt | undefined): number | null {
  const trial = natural?.trial ?? null;
  return trial === null || Number.isNaN(trial.endedMs) ? null : trial.endedMs - trial.grantedMs;
}
