import { current } from '../libraries/runtime/owner.js';
import { isWork } from './called.js';
import { commandsOf, type Defect } from './defect.js';
import { keyOfRelease } from './key-of-release.js';
import { isHarmful } from './late-safe.js';
import { hasLine, hasMessages, keepsPlace, waitsForDead } from './lines.js';
import { EXTENDS_OLD, RELEASES_FIRST } from './loss-defects.js';
import { paysAgain } from './paid.js';
import { type Attempt, cutOff, delayed, use } from './rehearsal.js';
import { doesTwice, looksOnlyBefore, repeatsAfterWait } from './repeats.js';
import { type Said, setsAnyway } from './said.js';
import {
  DELETES_UNWATCHED,
  GIVES_UP_ALONE,
  KEEPS_LATE_GRANT,
  KEEPS_ORPHAN,
  OVERWRITES_LOST,
  REENTERS,
  RELEASES_HUNG_UP,
  RELEASES_UNAWAITED,
  UNHEEDED,
  UNHEEDED_XX,
} from './shown-defects.js';
import { plays, REPLY_MS, type Subject, useOf } from './subject.js';
import { takenByTwo } from './takeover.js';
import { isSameValue, touchesIn } from './touches.js';
import type { Trial } from './trial.js';

/** Runs one schedule for each of these defects, which is made to show it. */
export async function targetedDefects(subject: Subject): Promise<readonly Defect[]> {
  const { how } = subject;
  const isSingle = how.nodes === 1 && how.admits === 1;
  const { use: used } = how.plan;
  const shows: readonly (readonly [boolean, () => Promise<Defect | null>])[] = [
    [(used === 'handler' || used === 'script') && how.releases, () => releasesUnawaited(subject)],
    [used === 'with' && how.releases, () => releasesUnawaited(asOwnWork(subject))],
    [used !== 'handler' && isSingle && !how.campaigns, () => keepsLateGrant(subject)],
    [used !== 'handler' && how.renews && isSingle, () => extendsUnheeded(subject)],
    [used !== 'handler' && isSingle && !how.campaigns && hasLine(subject), () => keepsPlace(subject)],
    [isSingle && !how.campaigns && hasMessages(subject), () => waitsForDead(subject)],
    [isSingle && subject.alone.trial?.endsByValue === true, () => takenByTwo(subject)],
    [true, () => Promise.resolve(keyOfRelease(subject))],
    [subject.bench.clients.givesNewLocks, () => Promise.resolve(extendsOldLock(subject))],
    [used === 'with' && how.releases && isSingle && hasContexts(subject), () => reenters(subject)],
    [used === 'handler' && isSingle, () => paysAgain(subject)],
    [used === 'with' && how.releases && isSingle, () => releasesHungUp(subject)],
    [used !== 'handler' && isSingle && how.besides.includes('b'), () => deletesUnwatched(subject)],
    [used === 'with' && how.releases && isSingle, () => releasesRaced(subject)],
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

/** A lock that no other takes the place of, which a timer extends again and again, and the name of what gives it. */
const EXTENDS_ONE =
  /\bconst\s+(\w+)\s*=\s*await\s+(?:[\w#]+\.)*#?(\w+)\.acquire\([\s\S]*?\bsetInterval\([^;]*?\b\1\.extend\(/;

/** An extension whose answer nobody keeps, and one whose answer is kept or handed on. */
const DROPS_EXTENDED = /(?:^|[;{}])\s*(?:(?:await|void)\s+)?(?:this\.)?#?\w+\.extend\(/gm;
const KEEPS_EXTENDED =
  /(?:=|=>|return|[(,?:&|])\s*(?:await\s+)?(?:this\.)?#?[\w.]+\.extend\(|\.extend\([^()]*\)\s*\.then\(/;
const OF_REDLOCK = /\b(?:from\s*|require\(\s*)['"]redlock/;
const REPEATS = String.raw`\b(?:setInterval|while|for)\s*\(`;

/** Whether what extends a lock, and keeps nothing of what that gives, is called in a loop or by a timer. */
function extendsAgain(text: string): boolean {
  if (!OF_REDLOCK.test(text) || KEEPS_EXTENDED.test(text)) return false;
  return [...text.matchAll(DROPS_EXTENDED)].some(({ index }) => {
    if (/\bsetInterval\([^;]*$/.test(text.slice(0, index + 1))) return true;
    const name = nameBefore(text, index);
    return name !== null && new RegExp(`${REPEATS}[^]{0,${NEAR}}?\\b${name}\\(`).test(text);
  });
}

/** As far from the beginning of a loop its body is looked at. */
const NEAR = 400;

/** The name of the function or method in which a place of a text is. */
function nameBefore(text: string, at: number): string | null {
  const heads = [
    ...text.slice(0, at).matchAll(/(?:\basync\s+|\bfunction\s+|\bprivate\s+|^\s+)#?(\w+)\s*\([^()]*\)[^;{}()]*\{/gm),
  ];
  const names = heads.map(([, name = '']) => name).filter((it) => !/^(?:if|for|while|switch|catch|function)$/.test(it));
  return names.at(-1) ?? null;
}

/** What is wrong where a timer extends a lock of `redlock` 5 that its first extension has made useless. */
function extendsOldLock({ bench }: Subject): Defect | null {
  // What gives it is no object of the file's own, which may keep what each extension gives.
  const isOne = (text: string): boolean => {
    if (extendsAgain(text)) return true;
    const [, , from] = EXTENDS_ONE.exec(text) ?? [];
    return from !== undefined && new RegExp(String.raw`\b${from}\??\s*(?::\s*|=\s*new\s+)Redlock\b`).test(text);
  };
  return bench.program.texts.some(isOne) ? EXTENDS_OLD : null;
}

/** As one that does work of its own: what it is handed may not be its work, but what loads the data of that. */
function asOwnWork(subject: Subject): Subject {
  const { how } = subject;
  return { ...subject, how: { ...how, plan: { ...how.plan, use: 'handler' } } };
}

function hasContexts({ bench }: Subject): boolean {
  return bench.program.sources.some(({ text }) => /\bAsyncLocalStorage\b/.test(text));
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
  const steps: { readonly name: string; readonly isHarm: boolean; readonly from: number; to: number; toMs: number }[] =
    [];
  const sentBy = (owner: typeof current.owner): number =>
    (owner === null ? undefined : bench.wire.trialOf(owner)?.sent.length) ?? 0;
  // `await` subscribes to the promise in a later microtask than the call.
  let calledAt: number | null = null;
  const heard = (): void => {
    calledAt = sentBy(current.owner);
  };
  const takes = async (given: readonly unknown[], name: string): Promise<void> => {
    const { owner } = current;
    const step = {
      name,
      isHarm: isHarmful(name, given),
      from: calledAt ?? sentBy(owner),
      to: Number.POSITIVE_INFINITY,
      toMs: Number.POSITIVE_INFINITY,
    };
    calledAt = null;
    steps.push(step);
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
    Object.assign(step, { to: sentBy(owner), toMs: owner?.wallMs() ?? 0 });
  };
  // A script may take the lock for each of a list, and go through several at once.
  const elements = subject.how.plan.use === 'script' ? 1 : 2;
  const [own] = await plays(subject, [[use(10, ttlMs, 1)]], [], { naturally: true, heard, takes, elements });
  const { trial } = own ?? {};
  if (own === undefined || trial == null || own.releaseError !== null) return null;
  const at = trial.sent.findIndex(
    ({ operation, key, atMs }) => operation === 'release' && key === trial.key && atMs >= trial.grantedMs,
  );
  if (at < 0) return null;
  // Nothing is sent or called between the grant and the release.
  const isUnused = trial.sent.slice(0, at).every(({ key, atMs }) => key === trial.key || atMs <= trial.grantedMs);
  const isLate = steps.every(({ from }) => from > at) && steps.some(({ isHarm, toMs }) => isHarm && toMs <= own.leftMs);
  if (isUnused && isLate && subject.how.plan.use === 'handler') return RELEASES_FIRST;
  const isUnderWay = steps.some(({ from, to }) => from <= at && to > at);
  const isAwaited = steps.some(({ from, toMs }) => from > at && toMs <= own.leftMs);
  // Nothing is done by then, but that the first step may have looked; and what is under way is no last step.
  const acts = steps.slice(1).filter(({ name }) => isWork(name));
  const isDetached = acts.every(({ to }) => to > at) && acts.some(({ from }) => from > at);
  // All that it does is under way, and it returns when that is over.
  const [only, ...others] = steps.filter(({ name }) => isWork(name));
  const longerMs = own.leftMs - (only?.toMs ?? Number.NaN);
  const isReturned = others.length === 0 && only !== undefined && only.from <= at && only.to > at;
  const isEarly = isUnderWay && (isAwaited || isDetached || (isReturned && longerMs >= 0 && longerMs < 1));
  return isEarly || storesReleased(subject, trial, trial.sent[at]?.atMs ?? 0, own.leftMs) ? RELEASES_UNAWAITED : null;
}

/** A time limit for the work: what is slower rejects. */
const LIMITS = /\bPromise\.race\(/;
/** Of its TTL, for how long the work may be done. */
const LONG_SHARE = 0.95;

/** Whether it releases the lock when a time limit is over, while the work that it was handed goes on and is not told. */
async function releasesRaced(subject: Subject): Promise<Defect | null> {
  const { bench, how } = subject;
  if (!bench.program.texts.some((it) => LIMITS.test(it))) return null;
  for (const isBare of new Set([how.isBare, true])) {
    const own = { ...subject, how: { ...how, isBare } };
    const [brief] = await plays(own, [[use(10, subject.ttlMs, 1)]]);
    const ttlMs = brief?.trial?.ttlMs ?? 0;
    if (ttlMs <= 0) continue;
    const [long] = await plays({ ...own, ttlMs }, [[use(10, ttlMs, LONG_SHARE * ttlMs)]], [], { naturally: true });
    const { trial, held, acquiredMs = 0 } = long ?? {};
    const isEarly = ({ operation, key, atMs }: Said): boolean =>
      operation === 'release' && key === trial?.key && atMs < acquiredMs + LONG_SHARE * ttlMs - STEP_MS;
    if (held != null && held.signal?.aborted !== true && trial?.isGranted && trial.sent.some(isEarly))
      return GIVES_UP_ALONE;
  }
  return null;
}

/** Whether a call stores what it has read under the lock only after the release, and before it returns. */
function storesReleased({ bench }: Subject, trial: Trial, releasedMs: number, leftMs: number): boolean {
  const locks = new Set([trial.key ?? '']);
  const read = touchesIn(bench, trial, locks).filter(({ stored }) => stored === null);
  // A call may take the lock once more, for the next of a list.
  const again = trial.sent.find(
    ({ operation, key, atMs }) => operation === 'acquire' && key === trial.key && atMs > releasedMs,
  );
  const untilMs = Math.min(leftMs, again?.atMs ?? leftMs);
  const later = touchesIn(bench, trial, locks, releasedMs + 1, true);
  return later.some((it) => it.stored !== null && it.atMs <= untilMs && read.some((before) => isSameValue(before, it)));
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
  // What works under it is another acquisition, as of a loop of the service that calls the same function.
  if (trial.worksAtMs.some((atMs) => atMs >= trial.grantedMs)) return null;
  const isExtended = ({ operation, atMs }: Said): boolean => operation === 'extend' && atMs > trial.grantedMs + ttlMs;
  return after.some(isExtended) ? KEEPS_LATE_GRANT : KEEPS_ORPHAN;
}

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
    (it) => setsAnyway(it) && it.key === own.trial?.key && it.atMs > other.acquiredMs,
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
  for (let afterMs = 0.5; afterMs <= REPLY_MS; afterMs++) {
    const late = delayed('c1', 'n0', 10 + heldMs + afterMs, ttlMs / 2);
    const attempts = await plays(subject, [[a, b], others, [third]], [late]);
    const [next, last] = [useOf(attempts, 'c2'), useOf(attempts, 'c3')];
    if (next?.trial?.isGranted !== true || last === undefined) continue;
    if (last.acquiredMs < next.acquiredMs + 0.75 * ttlMs) return DELETES_UNWATCHED;
  }
  return null;
}
