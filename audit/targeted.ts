import { current } from '../libraries/runtime/owner.js';
import type { Fault } from '../scenarios/index.js';
import { isWork, nameOfCall, ownerOf } from './called.js';
import { commandsOf, type Defect } from './defect.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import { takerIn, type Understood } from './plan.js';
import { type Attempt, calm, cutOff, delayed, REST_MS, rehearse, use, type Ways } from './rehearsal.js';
import { roleOf } from './roles.js';
import type { Said } from './said.js';
import {
  DELETES_UNWATCHED,
  KEEPS_LATE_GRANT,
  KEEPS_ORPHAN,
  LOOKS_BEFORE,
  OVERWRITES_LOST,
  REENTERS,
  RELEASES_HUNG_UP,
  RELEASES_UNAWAITED,
  UNHEEDED,
  UNHEEDED_XX,
} from './shown-defects.js';
import { isSameValue, type Touch, touchesIn } from './touches.js';
import { LOOKS_FOR } from './unknown.js';
import type { Trial } from './wire.js';

/** A lock, and what is needed to run it. */
export interface Runnable {
  readonly bench: Bench;
  readonly hosts: Hosts;
  readonly how: Understood;
}

/** The same with what is known of its runs. */
export interface Subject extends Runnable {
  readonly ttlMs: number;
  readonly alone: Attempt;
}

/** Runs one schedule for each of these defects, which is made to show it. */
export async function targetedDefects(subject: Subject): Promise<readonly Defect[]> {
  const { how } = subject;
  const isSingle = how.nodes === 1 && how.admits === 1;
  const { use: used } = how.plan;
  const shows: readonly (readonly [boolean, () => Promise<Defect | null>])[] = [
    [used === 'handler' && how.releases, () => releasesUnawaited(subject)],
    [used !== 'handler' && isSingle && !how.campaigns, () => keepsLateGrant(subject)],
    [used !== 'handler' && how.renews && isSingle, () => extendsUnheeded(subject)],
    [used === 'with' && how.releases && isSingle && hasContexts(subject), () => reenters(subject)],
    [used === 'with' && how.releases && isSingle, () => releasesHungUp(subject)],
    [used !== 'handler' && isSingle && how.besides.includes('b'), () => deletesUnwatched(subject)],
    [used === 'with' && how.releases && isSingle, () => doesTwice(subject)],
    [used !== 'pair' && how.releases && isSingle, () => repeatsAfterWait(subject)],
    [used === 'handler' && how.releases && isSingle && !subject.bench.finds, () => looksOnlyBefore(subject)],
  ];
  const found: Defect[] = [];
  for (const [isAbout, shown] of shows) {
    const defect = isAbout ? await shown() : null;
    if (defect !== null) found.push(defect);
  }
  return found;
}

function hasContexts({ bench }: Subject): boolean {
  return bench.program.sources.some(({ text }) => /\bAsyncLocalStorage\b/.test(text));
}

async function plays(
  { bench, hosts, how, ttlMs }: Subject,
  clients: Parameters<typeof calm>[1],
  faults: readonly Fault[] = [],
  ways: Ways = {},
): Promise<readonly Attempt[]> {
  const lastMs = Math.max(...clients.flat().map(({ atUs, holdUs }) => (atUs + (holdUs ?? 0)) / 1000));
  const schedule = calm(how.nodes, clients, (lastMs + 4 * ttlMs + REST_MS) * 1000);
  return rehearse(bench, hosts, how, { ...schedule, faults: [...faults] }, ways);
}

function useOf(attempts: readonly Attempt[], client: string): Attempt | undefined {
  return attempts.find((it) => it.client === client && it.held !== null);
}

/** What a step of its work takes, ms. */
const STEP_MS = 50;

/**
 * Whether a function that does its own work releases the lock during a step, continues with further steps, and returns after these.
 * Detached work does not count, unless it is all that is done: the function returns before its steps are done.
 */
async function releasesUnawaited(subject: Subject): Promise<Defect | null> {
  const { bench, ttlMs } = subject;
  /** How many commands were sent before each step, and before its end. */
  const steps: { readonly name: string; readonly from: number; to: number; toMs: number }[] = [];
  const sentBy = (owner: typeof current.owner): number =>
    (owner === null ? undefined : bench.wire.trialOf(owner)?.sent.length) ?? 0;
  // `await` subscribes to the promise in a later microtask than the call.
  let calledAt: number | null = null;
  const called: string[] = [];
  const heard = (_: readonly unknown[], name: string): void => {
    calledAt = sentBy(current.owner);
    called.push(name);
  };
  const takes = async (): Promise<void> => {
    const { owner } = current;
    const name = called.shift() ?? '';
    const step = {
      name,
      from: calledAt ?? sentBy(owner),
      to: Number.POSITIVE_INFINITY,
      toMs: Number.POSITIVE_INFINITY,
    };
    calledAt = null;
    steps.push(step);
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
    Object.assign(step, { to: sentBy(owner), toMs: owner?.wallMs() ?? 0 });
  };
  const [own] = await plays(subject, [[use(10, ttlMs, 1)]], [], { naturally: true, heard, takes, elements: 2 });
  const { trial } = own ?? {};
  if (own === undefined || trial == null || own.releaseError !== null) return null;
  const at = trial.sent.findIndex(
    ({ operation, key, atMs }) => operation === 'release' && key === trial.key && atMs >= trial.grantedMs,
  );
  if (at < 0) return null;
  const isUnderWay = steps.some(({ from, to }) => from <= at && to > at);
  const isAwaited = steps.some(({ from, toMs }) => from > at && toMs <= own.leftMs);
  // Nothing is done by then, but that the first step may have looked; and what is under way is no last step.
  const acts = steps.slice(1).filter(({ name }) => isWork(name));
  const isDetached = acts.every(({ to }) => to > at) && acts.some(({ from }) => from > at);
  const isEarly = isUnderWay && (isAwaited || isDetached);
  return isEarly || storesReleased(subject, trial, trial.sent[at]?.atMs ?? 0, own.leftMs) ? RELEASES_UNAWAITED : null;
}

/** Whether a call stores what it has read under the lock only after the release, and before it returns. */
function storesReleased({ bench }: Subject, trial: Trial, releasedMs: number, leftMs: number): boolean {
  const locks = new Set([trial.key ?? '']);
  const read = touchesIn(bench, trial, locks).filter(({ stored }) => stored === null);
  const later = touchesIn(bench, trial, locks, releasedMs + 1, true);
  return later.some((it) => it.stored !== null && it.atMs <= leftMs && read.some((before) => isSameValue(before, it)));
}

/** Whether an acquisition that has timed out continues to ask, acquires the lock later, and does not release it. */
async function keepsLateGrant(subject: Subject): Promise<Defect | null> {
  const { ttlMs, how } = subject;
  const heldMs = how.renews ? 4 * ttlMs : HELD_SHARE * ttlMs;
  const attempts = await plays(subject, [[use(10, ttlMs, heldMs)], [use(100, ttlMs, 1)]]);
  return how.releases ? keptLate(attempts, ttlMs) : null;
}

/** What is held for this share of its TTL is over before that. */
const HELD_SHARE = 0.9;

/** What is wrong where a call of the second process has failed, has asked again after that, got the lock, and kept it. */
export function keptLate(attempts: readonly (Attempt | undefined)[], ttlMs: number): Defect | null {
  const [own, late] = ['c1', 'c2'].map((name) => attempts.find((it) => it?.client === name));
  const { trial } = late ?? {};
  if (own?.held == null || late === undefined || late.held !== null || trial == null) return null;
  if (!(trial.grantedMs > late.returnedMs)) return null;
  const after = trial.sent.filter(({ key, atMs }) => key === trial.key && atMs >= late.returnedMs);
  const isOwn = after.some(({ operation }) => operation === 'acquire');
  if (!isOwn || after.some(({ operation, atMs }) => operation === 'release' && atMs >= trial.grantedMs)) return null;
  const isExtended = ({ operation, atMs }: Said): boolean => operation === 'extend' && atMs > trial.grantedMs + ttlMs;
  return after.some(isExtended) ? KEEPS_LATE_GRANT : KEEPS_ORPHAN;
}

const SETS: readonly string[] = ['set', 'setex', 'psetex'];

/** `ZADD … XX` in a script: its reply does not tell whether the member was there. */
const ADDS_KNOWN = /['"]zadd['"]\s*,[^)\n]*['"]xx['"]/i;

/** Whether a holder that was cut off until another process had the lock claims again that it holds it, after the partition. */
async function extendsUnheeded(subject: Subject): Promise<Defect | null> {
  const { ttlMs, bench } = subject;
  const cut = cutOff('c1', 1, 0.3 * ttlMs, 1.2 * ttlMs);
  const uses = [[use(10, ttlMs, 2.9 * ttlMs)], [use(1.35 * ttlMs, ttlMs, 3 * ttlMs)]];
  const attempts = await plays(subject, uses, [cut]);
  const [own, other] = [useOf(attempts, 'c1'), useOf(attempts, 'c2')];
  const isBeside = own?.held?.isHeld !== undefined && other !== undefined && other.acquiredMs < own.releasedMs;
  if (!isBeside || !own.believes || own.trial?.isGranted !== true || other.trial?.isGranted !== true) return null;
  const isAnswered = own.trial.sent.some(
    ({ operation, atMs }: Said) => operation === 'extend' && atMs > other.acquiredMs + ttlMs / 20,
  );
  if (!isAnswered) return null;
  const setsAgain = own.trial.sent.some(
    ({ verb, key, ifNew, atMs }) => SETS.includes(verb) && key === own.trial?.key && !ifNew && atMs > other.acquiredMs,
  );
  if (setsAgain) return OVERWRITES_LOST;
  const { sources } = bench.program;
  return sources.some(({ text }) => ADDS_KNOWN.test(text)) ? UNHEEDED_XX : UNHEEDED;
}

/** A call that nobody awaits, of anything but a client of Redis. */
const DETACHES =
  /^[^\S\n]*(?:void\s+)?(?!return|await)(?!(?:this\.)?#?(?:redis|valkey|client)\b)[\w$.#]+\([^\n;]*\)\.catch\(/im;

/** Whether detached work is let in as a nested call after the lock was released and another process has it. */
async function reenters(subject: Subject): Promise<Defect | null> {
  const { ttlMs } = subject;
  const uses = [[use(10, ttlMs, ttlMs / 4)], [use(ttlMs / 3, ttlMs, 1.5 * ttlMs)]];
  const attempts = await plays(subject, uses, [], { reentersAfterMs: 0.4 * ttlMs });
  const [own, other] = [useOf(attempts, 'c1'), useOf(attempts, 'c2')];
  if (own?.isReentered !== true || other?.trial?.isGranted !== true) return null;
  // It harms only a program that begins work without awaiting it.
  return { ...REENTERS, isShown: subject.bench.program.sources.some(({ text }) => DETACHES.test(text)) };
}

/** Whether the lock of a request is released when its client disconnects, and still claims to the handler that it is held. */
async function releasesHungUp(subject: Subject): Promise<Defect | null> {
  const { ttlMs } = subject;
  const uses = [[use(10, ttlMs, ttlMs / 2)], [use(ttlMs / 5, ttlMs, ttlMs / 5)]];
  const attempts = await plays(subject, uses, [], { hangsUp: true });
  const [own, other] = [useOf(attempts, 'c1'), useOf(attempts, 'c2')];
  if (own?.held?.hangUp === undefined || other?.trial?.isGranted !== true) return null;
  return other.acquiredMs < own.releasedMs && own.believes ? RELEASES_HUNG_UP : null;
}

/** Longest time from a planned call until its first replies without faults, ms. */
const MOST_MS = 24;

/**
 * Whether two concurrent releases of one process end each other's WATCH on their shared connection, so that one of them deletes a key
 * that another process holds by then.
 */
async function deletesUnwatched(subject: Subject): Promise<Defect | null> {
  const { ttlMs, alone } = subject;
  if (commandsOf(alone.trial as Trial).watchedAt < 0) return null;
  const heldMs = 0.9 * ttlMs;
  const [a, b] = [use(10, ttlMs, heldMs), { ...use(10, ttlMs, heldMs), resources: ['b'] }];
  const others = Array.from({ length: 12 }, (_, i) => ({
    ...use((0.98 + i * 0.02) * ttlMs, ttlMs, 0.8 * ttlMs),
    resources: ['b'],
  }));
  const third = { ...use(1.6 * ttlMs, ttlMs, 1), resources: ['b'] };
  for (let afterMs = 0.5; afterMs <= MOST_MS; afterMs++) {
    const late = delayed('c1', 'n0', 10 + heldMs + afterMs, ttlMs / 2);
    const attempts = await plays(subject, [[a, b], others, [third]], [late]);
    const [next, last] = [useOf(attempts, 'c2'), useOf(attempts, 'c3')];
    if (next?.trial?.isGranted !== true || last === undefined) continue;
    if (last.acquiredMs < next.acquiredMs + 0.75 * ttlMs) return DELETES_UNWATCHED;
  }
  return null;
}

/** Names of keys that mark work as done. */
const IS_MARK = /done|processed|handled|applied|finished|completed|idempot/i;
const READS: readonly string[] = ['exists', 'get', 'hget', 'hexists', 'sismember'];

/** Whether work that is marked as done runs twice: a process reads the mark before another one sets it, and acquires after that. */
async function doesTwice(subject: Subject): Promise<Defect | null> {
  const { ttlMs, alone } = subject;
  const sent = alone.trial?.sent ?? [];
  const at = sent.findIndex(({ operation, key }) => operation === 'acquire' && key === alone.trial?.key);
  const mark = sent.slice(0, Math.max(0, at)).find(({ verb, key }) => READS.includes(verb) && IS_MARK.test(key))?.key;
  if (mark === undefined || mark === alone.trial?.key || !sent.slice(at).some(({ words }) => words.includes(mark)))
    return null;
  const first = use(10, ttlMs, ttlMs / 4);
  const [, refused] = await plays(subject, [[first], [use(ttlMs / 2, ttlMs, 1)]]);
  if (refused === undefined || refused.held !== null) return null;
  const askedMs = ttlMs / 8;
  for (let afterMs = 0.5; afterMs <= MOST_MS; afterMs++) {
    const late = delayed('c2', 'n0', askedMs + afterMs, ttlMs / 2);
    const attempts = await plays(subject, [[first], [use(askedMs, ttlMs, 1)]], [late]);
    const [own, again] = [useOf(attempts, 'c1'), useOf(attempts, 'c2')];
    if (own !== undefined && again?.trial?.isGranted === true && again.acquiredMs > own.leftMs) return LOOKS_BEFORE;
  }
  return null;
}

/** What has been done is marked for longer than a cache keeps it, ms. */
const MARKED_MS = 3_600_000;

/** What does no harm twice: it is told so, or says so itself. */
const SAFE_TWICE = /upsert|once|if_?(?:absent|new|missing)|ensure|on conflict|or ignore|idempot|dedup/i;

/** What a call does that may have been done before. */
interface Repeat {
  readonly attempt: Attempt;
  /** It has called what it is handed. */
  readonly isCalled: boolean;
  readonly works: boolean;
  /** What it looks at besides its lock. */
  readonly looks: readonly Said[];
  /** What it stores under its lock, whatever is there. */
  readonly stores: readonly Touch[];
}

/** Whether a call that waits for the lock of another does the same work again, where a later call answers from what that has stored. */
async function repeatsAfterWait(subject: Subject): Promise<Defect | null> {
  const { ttlMs } = subject;
  const [own, later] = await twoCalls(subject, MARKED_MS);
  if (own?.works !== true || own.attempt.releaseError !== null || later?.works !== false) return null;
  const isMark = ({ key, field }: Touch): boolean =>
    later.looks.some((it) => it.key === key && (field === '' || it.words[2] === field));
  if (!own.stores.some(isMark) || later.attempt.trial?.isGranted !== false) return null;
  const [holder, waiter] = await twoCalls(subject, 10 + ttlMs / 16);
  const { trial } = waiter?.attempt ?? {};
  if (waiter?.works !== true || trial?.isGranted !== true || trial.refusals === 0) return null;
  const mark = holder?.stores.findLast(isMark);
  const looksAgain = waiter.looks.some(({ key, atMs }) => key === mark?.key && atMs >= trial.grantedMs);
  return mark === undefined || looksAgain || trial.grantedMs < mark.atMs || !waiter.stores.some(isMark)
    ? null
    : LOOKS_BEFORE;
}

/** What says that doing work twice does no harm. */
const SAYS_SAFE = /\bunique\b|idempot|on conflict/i;

/**
 * Whether a call that waits for the lock of another works on what it is handed again, where it has looked there before it asked, and not
 * since: where the look finds something, nothing is done.
 */
async function looksOnlyBefore(subject: Subject): Promise<Defect | null> {
  const { bench, ttlMs } = subject;
  const workMs = ttlMs / 32;
  const [own, waiter] = await twoCalls(subject, 10 + workMs / 2, workMs);
  const { trial } = waiter?.attempt ?? {};
  if (own?.works !== true || waiter?.works !== true || trial?.isGranted !== true || trial.refusals === 0) return null;
  if (bench.program.sources.some(({ text }) => SAYS_SAFE.test(text))) return null;

  const before = trial.calls.slice(0, trial.calls.length - trial.works.length).map(nameOfCall);
  const inside = trial.works.filter((it) => !SAFE_TWICE.test(it)).map(nameOfCall);
  const isOnlyBefore = (look: string): boolean => {
    const same = inside.filter((it) => ownerOf(it) === ownerOf(look));
    return same.length > 0 && same.every(isWork);
  };
  return before.some((it) => LOOKS_FOR.test(it) && isOnlyBefore(it)) ? LOOKS_BEFORE : null;
}

/**
 * Whether it keeps what its work gives for less than an hour, and answers from that meanwhile: who does the work a second time, as
 * one that does not wait for the lock for longer, loses time alone.
 */
export async function isCache(subject: Subject): Promise<boolean> {
  const { how, ttlMs } = subject;
  if (how.plan.use === 'pair' || !how.releases) return false;
  const [own, soon] = await twoCalls(subject, ttlMs / 2);
  if (own?.isCalled !== true || soon?.isCalled !== false) return false;
  // One script may store it and release.
  const asks = soon.attempt.trial?.sent.some(({ operation }) => operation === 'acquire') ?? true;
  if (own.stores.length === 0 && asks) return false;
  const [, later] = await twoCalls(subject, MARKED_MS);
  return later?.isCalled === true;
}

/**
 * Two calls for one key by two processes, the second of which is made so much later.
 *
 * @param workMs - What each part of the work takes. Default: a quarter of the TTL.
 */
async function twoCalls(
  subject: Subject,
  laterMs: number,
  workMs: number = subject.ttlMs / 4,
): Promise<readonly (Repeat | undefined)[]> {
  const { ttlMs, how } = subject;
  const isHanded = how.plan.use === 'with';
  const work = workOf(subject);
  let isSafe = false;
  const heard = (given: readonly unknown[]): void => {
    isSafe ||= given.some((it) => typeof it === 'object' && it !== null && SAFE_TWICE.test(Object.keys(it).join(' ')));
  };
  const takes = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, workMs));
  const first = use(10, ttlMs, isHanded ? workMs : 1);
  const ways = isHanded ? {} : { naturally: true, takes, heard };
  const attempts = await plays(subject, [[first], [use(laterMs, ttlMs, 1)]], [], ways);
  return ['c1', 'c2'].map((client) => {
    const attempt = attempts.find((it) => it.client === client);
    if (attempt === undefined) return undefined;
    const { trial } = attempt;
    const calls = isHanded ? (attempt.held === null ? [] : [work]) : isSafe ? [] : (trial?.works ?? []);
    return {
      attempt,
      isCalled: calls.length > 0,
      works: calls.some((it) => isWork(it) && !SAFE_TWICE.test(it)),
      looks: trial?.sent.filter(({ verb, key }) => READS.includes(verb) && key !== trial.key) ?? [],
      stores: storesIn(subject, trial),
    };
  });
}

function storesIn({ bench }: Subject, trial: Trial | null): readonly Touch[] {
  if (trial?.key == null) return [];
  return touchesIn(bench, trial, new Set([trial.key])).filter(({ stored }) => stored !== null);
}

/** What a lock calls the work that it is handed. */
function workOf({ bench, how }: Subject): string {
  const taker = bench.program.shapes.find(({ name }) => name === takerIn(how.plan));
  const all = taker?.parameters.flatMap((it) => [it, ...it.fields]) ?? [];
  return all.find((it) => roleOf(it) === 'work')?.name ?? 'work';
}
