import { current } from '../libraries/runtime/owner.js';
import type { Fault, LockPlan, Schedule } from '../scenarios/index.js';
import { isWork } from './called.js';
import { isOwnWork } from './cases.js';
import type { Defect } from './defect.js';
import { isRoute } from './hooks.js';
import type { Hosts } from './hosts.js';
import { bringsData, isRetried } from './jobs.js';
import { type Bench, textIn } from './load.js';
import { nameOfPlan, type Plan, takerIn, type Understood } from './plan.js';
import { played } from './played.js';
import { type Attempt, calm, delayed, heldNow, REST_MS, rehearse, use } from './rehearsal.js';
import type { Said } from './said.js';
import {
  DROPS_BUSY,
  DROPS_BUSY_JOB,
  forgetting,
  IS_DONE,
  LOSES_FAILED,
  LOSES_JOB,
  LOSES_MESSAGE,
  marksBefore,
} from './shown-defects.js';
import { holdsMessages } from './stored.js';
import type { Runnable, Subject, Timed } from './subject.js';
import { CHANGES_DATA, markIn } from './touches.js';
import type { Trial } from './trial.js';

/** Nobody means to hold a lock for so long, ms. */
const LONG_MS = 86_400_000;

async function plays(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  clients: readonly (readonly LockPlan[])[],
  faults: Fault[] = [],
): Promise<readonly Attempt[]> {
  return rehearse(bench, hosts, how, { ...scheduleOf(how, clients), faults });
}

function scheduleOf(how: Understood, clients: readonly (readonly LockPlan[])[]): Schedule {
  const lastMs = Math.max(...clients.flat().map(({ atUs, holdUs }) => (atUs + (holdUs ?? 0)) / 1000));
  return calm(how.nodes, clients, (lastMs + 4 * (how.fixedTtlMs ?? 0) + 2 * REST_MS) * 1000);
}

/** Whether the lock of a process that has died is free in the end, and not before. */
export async function isTakenOver(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<boolean> {
  const clients = [[use(10, ttlMs, LONG_MS)], [use(ttlMs / 4, ttlMs, 1)], [use(LONG_MS, ttlMs, 1)]];
  const attempts = await plays(bench, hosts, how, clients, [
    { kind: 'client-crash', client: 'c1', atUs: Math.round(ttlMs * 500) },
  ]);
  const [first, refused, last] = ['c1', 'c2', 'c3'].map((name) => attempts.find(({ client }) => client === name));
  const isEarly = Number(refused?.acquiredMs) < Number(refused?.askedMs) + ttlMs / 8;
  return first?.held != null && last?.held != null && !isEarly;
}

/**
 * Whether a key stays for ever that gets its TTL by a second command: its process dies when the first has been executed, and
 * before the second is sent.
 */
export async function staysWithoutTtl({ bench, hosts, how, ttlMs, alone }: Subject): Promise<boolean> {
  const own = alone.trial?.sent.filter(({ key }) => key === alone.trial?.key) ?? [];
  const sets = own.find(({ operation }) => operation === 'acquire');
  const expires = own.find(({ operation }) => operation === 'extend');
  // What is sent together is executed together.
  if (sets === undefined || sets.ttlMs !== null || expires === undefined || expires.atMs <= sets.atMs) return false;
  const dies: Fault = { kind: 'client-crash', client: 'c1', atUs: (10 + expires.atMs - alone.askedMs) * 1000 - 500 };
  const attempts = await plays(bench, hosts, how, [[use(10, ttlMs, 1)], [use(LONG_MS, ttlMs, 1)]], [dies]);
  const last = attempts.find(({ client }) => client === 'c2')?.trial;
  return last?.isGranted === false && last.refusals > 0;
}

/** Whether a process that asks again after its lock has run out is given it without a command. */
export async function remembers(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<boolean> {
  const again = 2 * ttlMs + 10_000;
  const [first, second] = await plays(bench, hosts, { ...how, plan: { ...how.plan, give: null } }, [
    [use(10, ttlMs, ttlMs / 4), use(again, ttlMs, 1)],
  ]);
  const asks = second?.trial?.sent.some(({ operation }) => operation === 'acquire') ?? true;
  return first?.trial?.isGranted === true && first.trial.ttlMs !== null && second?.held != null && !asks;
}

/**
 * Whether a release whose answers are late deletes the key of the next holder: its first answer comes when its own key has
 * expired, another process has acquired, and a third one asks.
 */
export async function deletesLate(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<boolean> {
  const releaseMs = 0.9 * ttlMs;
  const others = Array.from({ length: 12 }, (_, i) => use((0.98 + i * 0.02) * ttlMs, ttlMs, 0.8 * ttlMs));
  const third = use(1.55 * ttlMs, ttlMs, 1);
  // What is on its way back then is late; what is on its way there is not.
  const late = delayed('n0', 'c1', 10 + releaseMs, 1.4 * ttlMs - releaseMs);
  const attempts = await plays(bench, hosts, how, [[use(10, ttlMs, releaseMs)], others, [third]], [late]);
  const own = attempts.find(({ client }) => client === 'c1');
  const next = attempts.find(({ client, held }) => client === 'c2' && held !== null);
  const last = attempts.find(({ client }) => client === 'c3');
  // Where the second process waits in several calls, the grant to one may count for another.
  const isGranted = attempts.some(({ client, trial }) => client === 'c2' && trial?.isGranted === true);
  if (own?.held == null || next === undefined || last?.held == null || !isGranted) return false;
  return last.acquiredMs < next.acquiredMs + 0.7 * ttlMs && own.releasedMs < next.acquiredMs;
}

/** So much is there to be done where a lock says now and then how far it has come. */
const MANY = 1_200;
/** A lock that says how far it has come, each so many steps: no more than there are. */
const COUNTS_STEPS = /%\s*(?:\d{2,3}(?![\d_])|1_?000(?![\d_])|[A-Z][A-Z_]+)/;
const SETS_FIRST = /['"]set['"]\s*,\s*KEYS\[1\]\s*,/gi;
const KEEPS_TTL = /keepttl|['"](?:px|ex|pxat|exat|p?expire(?:at)?|p?setex)['"]/i;

/** Whether a script sets its first key and gives it no TTL with that, or after that. */
function setsWithoutTtl(text: string): boolean {
  const last = [...text.matchAll(SETS_FIRST)].at(-1);
  return last !== undefined && !KEEPS_TTL.test(text.slice(last.index));
}

/** What is sent for its key while a lock is held. */
export interface SentWhileHeld {
  /** Something sets the key again without a TTL. */
  readonly dropsTtl: boolean;
  /** The TTL that its first extension gives the key, ms; `null` for none. */
  readonly extensionTtlMs: number | null;
}

/** What a lock sends for its key while it is held: work of its own takes long enough for a heartbeat. */
export async function sentWhileHeld(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  ttlMs: number,
): Promise<SentWhileHeld> {
  const isLong = bench.program.sources.some(({ text }) => COUNTS_STEPS.test(text));
  const schedule = scheduleOf(how, [[use(10, ttlMs, ttlMs / 4)]]);
  const takes = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, ttlMs / 2));
  const ways = isLong ? { elements: MANY } : isOwnWork(how) ? { takes } : {};
  const [own] = await rehearse(bench, hosts, how, schedule, ways);
  const mayBeat = bench.program.texts.some((it) => HEARTBEAT.test(it));
  const isStep = isOwnWork(how) && !isLong && mayBeat && !sentLater(own).some(isExtension);
  // What takes long may be given up at a time limit, and many steps are not.
  const takesStep = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, ttlMs / STEPS));
  const [stepwise] = isStep ? await rehearse(bench, hosts, how, schedule, { elements: STEPS, takes: takesStep }) : [];
  const later = [...sentLater(own), ...sentLater(stepwise).filter(isExtension)];
  const extension = later.find(isExtension);
  const [quick] = isOwnWork(how) && !isLong ? await rehearse(bench, hosts, how, schedule) : [];
  const all = [...later, ...sentLater(quick)];
  return { dropsTtl: all.some((it) => setsAlone(bench, it)), extensionTtlMs: extension?.ttlMs ?? null };
}

/** A timer may extend it. What has none may count its time in a loop, which would never end. */
const HEARTBEAT = /\bsetInterval\b/;

/** So many steps take a TTL. */
const STEPS = 12;

function isExtension({ operation, ttlMs }: Said): boolean {
  return operation === 'extend' && ttlMs !== null;
}

/** What is sent for a key with a TTL when that has been granted. */
function sentLater(attempt: Attempt | undefined): readonly Said[] {
  const trial = attempt?.trial;
  if (trial == null || trial.ttlMs === null || !trial.isGranted) return [];
  return trial.sent.filter(({ key, atMs }) => key === trial.key && atMs > trial.grantedMs);
}

/** Whether a command sets a key and gives it no TTL. */
function setsAlone(bench: Bench, said: Said): boolean {
  const { verb, words, operation } = said;
  if (verb === 'set') return !words.slice(3).some((it) => /^(?:nx|px|ex|pxat|exat|keepttl)$/i.test(it));
  return verb === 'script' && operation !== 'release' && setsWithoutTtl(textIn(bench, said));
}

/** What a consumer tells its queue of a message. */
const GIVES_MESSAGE_BACK = /(?:^|\.)(?:requeue|nack|reject|retry|return(?:Message)?)(?:\s|$)/i;
const ACKNOWLEDGES = /(?:^|\.)(?:ack(?:nowledge)?|complete|commit|deleteMessage)(?:\s|$)|\b(?:log|logger|console)\b/i;

/**
 * Whether a request whose work has failed is answered as failed, so that it is sent again, and is then taken for done: its key is still
 * there.
 */
export async function losesFailed(subject: Timed): Promise<readonly Defect[]> {
  const { bench, hosts, how, ttlMs } = subject;
  // What it reads of the request before is there.
  const takes = (): Promise<void> =>
    current.owner?.name === 'c1' && heldNow(bench) !== null
      ? Promise.reject(new Error('it failed'))
      : Promise.resolve();
  const atMs = Math.min(ttlMs / 2, AGAIN_MS);
  const uses = [[use(10, ttlMs, 1)], [use(10 + atMs, ttlMs, 1)], [{ ...use(10, ttlMs, 1), resources: ['b'] }]];
  const schedule = calm(how.nodes, uses, (atMs + 2 * REST_MS) * 1000);
  const attempts = await rehearse(bench, hosts, how, schedule, { naturally: true, takes });
  const all = ['c1', 'c2', 'c3'].map((name) => attempts.find((it) => it.client === name));
  const [failed, again, other] = all.map((it) => it?.trial);
  // What is done once in a period may be left undone on purpose; a request is of something.
  if (failed?.key === other?.key) return [];
  const mark = markedUndone(all);
  if (mark !== null) return [marksBefore(mark)];
  if (failed?.isGranted !== true || again?.isGranted !== false) return [];
  const calls = failed.calls.filter((it) => GIVES_MESSAGE_BACK.test(it));
  if (calls.length > 0 && again.calls.length > 0 && again.calls.every((it) => ACKNOWLEDGES.test(it)))
    return failed.works.some((it) => isWork(it) && !calls.includes(it)) ? [LOSES_MESSAGE] : [];
  const begun = begunBy(failed);
  const isSkipped = all[0]?.releaseError != null && all[1]?.error === null && !hasWorked(again, begun);
  if (isSkipped && other != null && hasWorked(other, begun) && isRetried(subject)) return [LOSES_JOB];
  // Its first step may only look.
  const isThrown = all[0]?.releaseError != null && isRoute(takerIn(how.plan));
  const isFailed = (failed.status ?? (isThrown ? FAILED : 0)) >= FAILED && other?.works.some(isWork) === true;
  if (!isFailed || !hasSucceeded(again) || hasWorked(again, begun)) return [];
  // A batch of messages says which have failed.
  return [bench.program.texts.some((it) => it.includes('batchItemFailures')) ? LOSES_MESSAGE : LOSES_FAILED];
}

/** What it has called before it asked for its key: that it calls each time. */
function begunBy({ calls, works }: Trial): readonly string[] {
  return calls.slice(0, calls.length - works.length);
}

/** Whether a call has done anything besides what it has begun with, in Redis too. */
function hasWorked({ calls, sent, key }: Trial, begun: readonly string[]): boolean {
  return (
    calls.some((it) => isWork(it) && !begun.includes(it)) ||
    sent.some((it) => it.key !== key && CHANGES_DATA.test(it.verb))
  );
}

/** Commands by which a message goes back to its queue. */
const PUSHES = /^(?:[lr]push|zadd|xadd)$/;
/** A stream gives its entries again when they have been pending for no longer than this, ms. */
const PENDING_MS = 200_000;

/**
 * Whether a message whose work has failed is dropped when it comes again, as the key of the try before is still there: a message that is
 * put back into its list in Redis, or an entry of a stream that is not acknowledged.
 */
async function losesAgain(subject: Subject): Promise<boolean> {
  const { bench, hosts, how, ttlMs } = subject;
  if (!holdsMessages(bench.stored)) return false;
  const isStream = bench.stored.some(([verb]) => verb === 'XADD');
  let isFirst = true;
  const takes = (): Promise<void> => {
    const fails = isFirst;
    isFirst = false;
    return fails ? Promise.reject(new Error('it failed')) : Promise.resolve();
  };
  const untilMs = isStream ? PENDING_MS : 2 * REST_MS;
  const [attempt] = await rehearse(bench, hosts, how, calm(how.nodes, [[use(10, ttlMs, 1)]], untilMs * 1000), {
    naturally: true,
    takes,
  });
  const trial = attempt?.trial;
  if (trial?.isGranted !== true || isFirst) return false;
  const { sent, key, calls, worksAfter } = trial;
  const back = sent.findIndex(({ verb, operation, key: own, atMs }) =>
    isStream ? operation === 'acquire' && own === key : PUSHES.test(verb) && atMs >= trial.grantedMs,
  );
  const again = sent.findIndex((it, i) => i > back && it.operation === 'acquire' && it.key === key);
  if (back < 0 || again < 0 || sent.slice(0, again).some((it) => it.operation === 'release' && it.key === key))
    return false;
  // What goes back to its list again is tried later.
  const after = sent.slice(again);
  const isDropped = isStream ? after.some(({ verb }) => verb === 'xack') : !after.some(({ verb }) => PUSHES.test(verb));
  return isDropped && !worksAfter.some((after, i) => after > again && isWork(calls[i] ?? ''));
}

/** Whether an entry of a stream is acknowledged whose lock another process has: nobody does its work then. */
async function dropsBusy(subject: Subject): Promise<boolean> {
  const { bench, hosts, how, ttlMs, alone } = subject;
  const { stored } = bench;
  if (!how.releases || alone.trial?.key == null || !stored.some(([verb]) => verb === 'XADD')) return false;
  bench.stored = [...stored, ['SET', alone.trial.key, 'another', 'PX', String(4 * ttlMs)]];
  const schedule = calm(how.nodes, [[use(10, ttlMs, 1)]], (ttlMs + REST_MS) * 1000);
  const [attempt] = await rehearse(bench, hosts, how, schedule, { naturally: true }).finally(() => {
    bench.stored = stored;
  });
  const trial = attempt?.trial;
  if (trial == null || trial.isGranted || trial.calls.some(isWork)) return false;
  const asked = trial.sent.findIndex(({ operation, key }) => operation === 'acquire' && key === alone.trial?.key);
  return asked >= 0 && trial.sent.some(({ verb }, i) => verb === 'xack' && i > asked);
}

/** What tells a queue that a message is done. */
const IS_DONE_WITH = /(?:^|\.)(?:ack(?:nowledge)?|deleteMessage|complete)(?:\s|$)/;

/** Whether a message is acknowledged, or a job taken for done, whose lock another process has, and nothing is done of its work. */
async function acknowledgesBusy(subject: Subject): Promise<Defect | null> {
  const { bench, hosts, how, ttlMs, alone } = subject;
  const isWorking = alone.trial?.works.some((it) => isWork(it) && !IS_DONE_WITH.test(it)) === true;
  const returns = bringsData(subject);
  const isDone = returns || alone.trial?.calls.some((it) => IS_DONE_WITH.test(it)) === true;
  if (!how.releases || !isWorking || !isDone) return null;
  const takes = (): Promise<void> =>
    new Promise((resolve) => setTimeout(resolve, current.owner?.name === 'c1' && heldNow(bench) ? ttlMs / 2 : 0));
  const uses = [[use(10, ttlMs, 1)], [use(10 + ttlMs / 8, ttlMs, 1)]];
  const attempts = await rehearse(bench, hosts, how, calm(how.nodes, uses, 8 * ttlMs * 1000), {
    naturally: true,
    takes,
  });
  const [own, busy] = ['c1', 'c2'].map((name) => attempts.find(({ client }) => client === name));
  const { isGranted, refusals } = busy?.trial ?? {};
  if (own?.trial?.isGranted !== true || isGranted !== false || refusals === 0) return null;
  const begun = begunBy(own.trial);
  const calls = busy?.trial?.calls.filter((it) => !begun.includes(it)) ?? [];
  const isTaken = returns ? busy?.error === null : calls.some((it) => IS_DONE_WITH.test(it));
  const isDropped = isTaken && calls.every((it) => IS_DONE_WITH.test(it) || !isWork(it));
  return isDropped ? (returns ? DROPS_BUSY_JOB : DROPS_BUSY) : null;
}

/**
 * The key, beside that of the lock, that a call has stored whose work has failed, and that keeps the next call from doing the work, which
 * says nothing of that: a mark that was set too early. A call of another thing does its work. `null` where there is none.
 */
function markedUndone([failed, again, other]: readonly (Attempt | undefined)[]): string | null {
  const [own, next] = [failed?.trial, again?.trial];
  const isTold = failed?.releaseError != null && again?.error === null && again.releaseError === null;
  if (!isTold || own?.isGranted !== true || next?.isGranted !== true || own.key !== next.key) return null;
  if (next.calls.some(isWork) || other?.trial?.calls.some(isWork) !== true) return null;
  const stored = own.sent.filter(({ verb, key }) => /^(?:set|setex|psetex|setnx)$/.test(verb) && key !== own.key);
  return stored.find(({ key }) => next.sent.some((it) => it.key === key))?.key ?? null;
}

/** Whether a request was answered by 2xx. */
function hasSucceeded({ status }: Trial): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** The status by which a web framework answers a request whose handler throws. */
const FAILED = 500;

/** A request that has failed is sent again after this, ms. */
const AGAIN_MS = 60_000;

/** A mark that lasts for less than this is no record of what was done, ms. */
const SHORTEST_MARK_MS = 600_000;
const KEEPS_OWN_TTL = /\bkeepttl\b/i;

/** Whether a request marks its work as done in its key, and that ends as soon as the key would have without. */
function forgetsDone({ bench, alone: { trial } }: Subject): readonly Defect[] {
  if (trial?.ttlMs == null || trial.ttlMs >= SHORTEST_MARK_MS) return [];
  const mark = markIn(bench, trial);
  if (!hasSucceeded(trial) || mark === null || !IS_DONE.test(mark)) return [];
  const later = trial.sent.filter(({ atMs }) => atMs >= trial.grantedMs);
  const keeps = later.some((it) => KEEPS_OWN_TTL.test(it.verb === 'script' ? textIn(bench, it) : it.words.join(' ')));
  return keeps ? [forgetting(mark, trial.ttlMs)] : [];
}

/** What is wrong with what a function that does its own work leaves behind, where that answers requests. */
export async function requestDefects(subject: Subject): Promise<readonly Defect[]> {
  if (!isOwnWork(subject.how)) return [];
  const lost = await losesFailed(subject);
  const again = lost.length === 0 && (await losesAgain(subject)) ? [LOSES_MESSAGE] : lost;
  const dropped = (await dropsBusy(subject)) ? DROPS_BUSY : await acknowledgesBusy(subject);
  return [...again, ...(dropped === null ? [] : [dropped]), ...forgetsDone(subject)];
}

/** It returns before its try block. */
const KEPT_ON_RETURN: Defect = {
  id: 'kept-on-return',
  sentence: 'does not release its lock where it finds nothing to do: it returns early, before the block that releases',
  fix: 'begin the try block, in whose finally the lock is released, directly after the lock was acquired',
  brings: ['leak', 'lifetime'],
  property: 'deadlock-free',
  isShown: true,
};

/** Whether a function that releases its lock keeps it where it looks for something and finds the opposite. */
export async function keptOnReturn(subject: Runnable, plan: Plan): Promise<Defect | null> {
  if (!subject.bench.program.texts.some((it) => /\bfinally\b/.test(it))) return null;
  const ended = async (finds: boolean): Promise<Trial | null> => {
    const [own] = await played({ ...subject, bench: { ...subject.bench, finds } }, [{ plan, atMs: 10 }]);
    return own?.error === null && own.trial?.isGranted === true && Number.isFinite(own.leftMs) ? own.trial : null;
  };
  const [found, missed] = [await ended(true), await ended(false)];
  if (found === null || missed === null || found.key !== missed.key || found.isReleased === missed.isReleased)
    return null;
  const [kept, released] = found.isReleased ? [missed, found] : [found, missed];
  const doneBy = ({ works }: Trial): number => works.filter(isWork).length;
  // A hold is kept where it is had, and released where there is something in its way.
  if (doneBy(kept) >= doneBy(released)) return null;
  const isExtended = kept.sent.some(({ operation, key }) => operation === 'extend' && key === kept.key);
  const { sentence } = KEPT_ON_RETURN;
  const more = isExtended
    ? ', and its heartbeat goes on extending it: nobody gets the lock for as long as the process lives'
    : ': nobody gets the lock until its TTL is over';
  return { ...KEPT_ON_RETURN, sentence: `${nameOfPlan(plan)} ${sentence}${more}` };
}
