import { isWork, nameOfCall } from './called.js';
import type { Defect } from './defect.js';
import { pagesPastTtl, repeatedPast } from './endless.js';
import { refusesLate } from './fences.js';
import { goesOnGivenUp, limitsOfCalls } from './given-up.js';
import { isHarmful } from './late-safe.js';
import {
  limitExceedsTtl,
  limitsExceedTtl,
  listExceedsTtl,
  platformExceedsTtl,
  programExceedsTtl,
  saidToExceedTtl,
} from './limit-defects.js';
import { nameOfPlan, type Plan } from './plan.js';
import { nowMs, OVER, once, ttlOf } from './played.js';
import { type Attempt, heldNow } from './rehearsal.js';
import { retriesPastTtl } from './retries.js';
import { longestSaid } from './said-times.js';
import { IS_DONE, marksAsDone, RELEASES_BESIDE } from './shown-defects.js';
import { aborted, signalsIn } from './signals.js';
import { isStatement } from './statements.js';
import type { Runnable } from './subject.js';
import { CHANGES_DATA, markIn } from './touches.js';
import { calls } from './unknown.js';

/** What a part of the work takes, and what one takes that goes on where another has failed, ms. */
const PART_MS = 50;
const LONG_MS = 400;

/** Of a time limit, what a call takes that does not run into it. */
const NEAR = 0.95;
/** A signal that aborts later than this is no time limit of a call, ms. */
const LONGEST_LIMIT_MS = 900_000;

/** A part of the work: something that is awaited of what a function was handed. */
interface Part {
  readonly fromMs: number;
  toMs: number;
  /** The lock was still held when it ended. */
  isCovered: boolean;
  /** It does harm where nobody holds the lock, or leads to what does. */
  isHarm: boolean;
}

/** What is wrong where the time limits of what is called under a lock are longer than its TTL. */
export async function limitDefect(subject: Runnable, plan: Plan): Promise<Defect | null> {
  return (await exceedsTtl(subject, plan)) ?? (await waitsPastTtl(subject, plan));
}

/** What is wrong where the work of a function, or of a file as it is loaded, may take longer than the TTL lets it. */
export async function lengthDefect(subject: Runnable, plan: Plan): Promise<Defect | null> {
  return (
    (await limitDefect(subject, plan)) ??
    (await runsPastTtl(subject, plan)) ??
    (await startsUnbounded(subject, plan)) ??
    (await saysMore(subject, plan)) ??
    (await goesThroughList(subject, plan))
  );
}

/** What is wrong with the parts of the work that a function does under its lock. */
export async function partDefect(subject: Runnable, plan: Plan): Promise<Defect | null> {
  return (
    (await releasesBeside(subject, plan)) ??
    (await lengthDefect(subject, plan)) ??
    (await goesOnGivenUp(subject, plan)) ??
    (await retriesPastTtl(subject, plan)) ??
    (await pagesPastTtl(subject, plan)) ??
    (await marksUndone(subject, plan))
  );
}

/**
 * Whether a function that does parts of its work at once releases its lock when one of them fails, while others go on. Without a failure
 * it awaits them all.
 */
async function releasesBeside(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { attempt, parts } = await inParts(subject, plan, null);
  if (attempt?.held == null || attempt.releaseError !== null || attempt.trial?.isGranted !== true) return null;
  const failing = parts.findIndex((it, i) => parts.slice(i + 1).some(({ fromMs }) => fromMs < it.toMs));
  if (failing < 0 || !parts.every(({ isCovered }) => isCovered)) return null;
  const failed = await inParts(subject, plan, failing);
  const isLeft = failed.parts.some(({ isCovered, isHarm }, i) => i !== failing && !isCovered && isHarm);
  return isLeft && !failed.isTold ? RELEASES_BESIDE : null;
}

/**
 * Calls a function whose work has several parts.
 *
 * @param failing - The part that fails, while later ones take long; `null` where none does.
 * @returns `isTold`: as a later part ended, one had been told to stop.
 */
async function inParts(
  subject: Runnable,
  plan: Plan,
  failing: number | null,
): Promise<{ readonly attempt: Attempt | undefined; readonly parts: readonly Part[]; readonly isTold: boolean }> {
  const { bench } = subject;
  const parts: Part[] = [];
  const signals = new Set<AbortSignal>();
  let isTold = false;
  const takes = async (given: readonly unknown[], name: string): Promise<void> => {
    if (heldNow(bench) === null) return;
    const isHarm = isHarmful(name, given);
    const part: Part = { fromMs: nowMs(), toMs: Number.POSITIVE_INFINITY, isCovered: false, isHarm };
    const at = parts.push(part) - 1;
    const isLong = failing !== null && at > failing;
    await new Promise((resolve) => setTimeout(resolve, isLong ? LONG_MS : PART_MS));
    part.toMs = nowMs();
    part.isCovered = heldNow(bench) !== null;
    if (isLong) isTold ||= [...signals].some(({ aborted }) => aborted);
    if (at === failing) throw new Error('it failed');
  };
  const heard = (given: readonly unknown[], name: string): void => {
    for (const signal of signalsIn(given)) signals.add(signal);
    if (heldNow(bench) !== null || !isHarmful(name, given)) return;
    for (const part of parts) part.isHarm ||= !part.isCovered && part.toMs <= nowMs();
  };
  const attempt = await once(subject, plan, { takes, heard, elements: 2 });
  return { attempt, parts, isTold };
}

/** So many elements has a list whose length nothing limits. */
const MANY = 8;
const LOOPS = /\bfor\s*(?:await\s*)?\(|\.forEach\(/;
/** Not how often a command is tried, or how many messages are received at once. */
const LIMITS_LENGTH =
  /limit|batch|chunk|page|\bmax(?!Retr|NumberOfM|Attempt|Wait|Duration|Age|Delay)|\btake\b|\btop\b|\.slice\(/i;

/** `LIMIT 2000`: a request to another server takes at least so long, ms, so that a list of so many rows takes longer than a TTL. */
const ROWS = /\blimit\s+(\d+)/gi;
const LEAST_MS = 20;

/** Whether its work goes through lists, and nothing limits their length, or not to what can be done in a TTL. */
function isUnbounded({ bench, how }: Runnable): boolean {
  const { texts } = bench.program;
  const ttlMs = how.fixedTtlMs ?? Number.POSITIVE_INFINITY;
  const short = texts.map((it) => it.replace(ROWS, (limit, rows) => (Number(rows) * LEAST_MS > ttlMs ? '' : limit)));
  return texts.some((it) => LOOPS.test(it)) && !short.some((it) => LIMITS_LENGTH.test(it));
}

/**
 * Whether a function begins with a part of its work when its TTL has passed, or has not ended it by then, where each part takes as long
 * as the time limit that it is given, or as many parts take almost as long. What has no limit takes no time.
 */
async function exceedsTtl(subject: Runnable, plan: Plan): Promise<Defect | null> {
  if (refusesLate(subject.bench)) return null;
  const limits = new Map<string, number>();
  const late = await lateWork(subject, plan, 1, async (name, signals) => {
    const fromMs = nowMs();
    const ended = (): void => void limits.set(nameOfCall(name), nowMs() - fromMs);
    for (const signal of signals) signal.addEventListener('abort', ended);
    // One that only looks, and is not caught, would end all.
    if (isWork(name)) await Promise.race(signals.map(aborted));
  });
  if (late !== null || !isUnbounded(subject)) return late;
  return lateWork(subject, plan, MANY, async (name, signals) => {
    const takesMs = NEAR * (limits.get(nameOfCall(name)) ?? 0);
    await Promise.race([new Promise((resolve) => setTimeout(resolve, takesMs)), ...signals.map(aborted)]);
  });
}

/**
 * Work that a function is at when its TTL has passed.
 *
 * @param elements - Of each list of which nothing is known.
 * @param takes - What a call takes that has a time limit.
 */
async function lateWork(
  subject: Runnable,
  plan: Plan,
  elements: number,
  takes: (name: string, signals: readonly AbortSignal[]) => Promise<void>,
): Promise<Defect | null> {
  const { bench } = subject;
  const lates: { readonly name: string; readonly afterMs: number; readonly atMs: number }[] = [];
  const look = (name: string): void => {
    const trial = isWork(name) ? heldNow(bench) : null;
    const afterMs = nowMs() - (trial?.grantedMs ?? Number.NaN);
    if (trial?.ttlMs != null && afterMs > OVER * trial.ttlMs)
      lates.push({ name: name.replace(/^\./, ''), afterMs, atMs: nowMs() });
  };
  const heard = (_: readonly unknown[], name: string): void => look(name);
  const awaited = async (given: readonly unknown[], name: string): Promise<void> => {
    const signals = signalsIn(given);
    if (signals.length > 0) await takes(name, signals).finally(() => look(name));
  };
  const {
    trial,
    held = null,
    leftMs = Number.NaN,
  } = (await once(subject, plan, { heard, takes: awaited, elements })) ?? {};
  const [late] = lates;
  // What comes after that is another call: a scheduler goes on when it has begun.
  if (late === undefined || held === null || late.atMs > leftMs) return null;
  if (trial?.ttlMs == null || trial.sent.some(({ operation }) => operation === 'extend')) return null;
  return limitsExceedTtl(nameOfPlan(plan), trial.ttlMs, late);
}

/**
 * Whether a function goes on with its work after one call that has taken almost as long as its time limit lets it, when the TTL has passed.
 * What looks at a signal or at the time before it goes on does no work then.
 */
async function waitsPastTtl(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench, how } = subject;
  const ttlMs = how.fixedTtlMs ?? Number.POSITIVE_INFINITY;
  if (refusesLate(bench)) return null;
  const { name, limitMs } = await longestLimit(subject, plan);
  const takesMs = NEAR * limitMs;
  if (takesMs <= OVER * ttlMs) return null;
  let latest = '';
  let isOver = false;
  let works = false;
  const heard = (_: readonly unknown[], call: string): void => {
    latest = call;
    works ||= isOver && isWork(call);
  };
  const takes = async (): Promise<void> => {
    if (isOver || latest !== name || heldNow(bench) === null) return;
    await new Promise((resolve) => setTimeout(resolve, takesMs));
    isOver = true;
  };
  const { trial, held = null } = (await once(subject, plan, { heard, takes }, takesMs)) ?? {};
  if (held === null || trial?.ttlMs == null || trial.sent.some(({ operation }) => operation === 'extend')) return null;
  // What keeps its key on purpose is a guard, and its TTL is not that of its work.
  if (!trial.isReleased) return null;
  const lateMs = trial.grantedMs + takesMs;
  works ||= trial.sent.some(({ verb, key, atMs }) => atMs >= lateMs && key !== trial.key && CHANGES_DATA.test(verb));
  return works ? limitExceedsTtl(nameOfPlan(plan), trial.ttlMs, { name: name.replace(/^\./, ''), limitMs }) : null;
}

/** How long a platform lets a route run, s, and what a route looks at that ends before that. */
const MAX_DURATION = /\bexport const maxDuration\s*=\s*(\d+)/;
const LOOKS_AT_TIME = /Date\.now\(\)|performance\.now\(\)|AbortSignal\.timeout|new AbortController/;

function platformLimitS(texts: readonly string[]): number | null {
  return texts.map((it) => Number(MAX_DURATION.exec(it)?.[1])).find((it) => it > 0) ?? null;
}

/** Whether a route goes through a list under its lock, and its platform lets it run for longer than the TTL. */
async function runsPastTtl(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { texts } = subject.bench.program;
  const limitS = platformLimitS(texts);
  if (limitS === null || !texts.some((it) => LOOPS.test(it)) || texts.some((it) => LOOKS_AT_TIME.test(it))) return null;
  const { trial, held = null } = (await once(subject, plan, { elements: MANY })) ?? {};
  if (held === null || trial?.ttlMs == null || refusesLate(subject.bench)) return null;
  const isOver = limitS * 1000 > trial.ttlMs && !trial.sent.some(({ operation }) => operation === 'extend');
  const isLoop = trial.calls.filter(isWork).length >= MANY;
  return isOver && trial.isReleased && isLoop ? platformExceedsTtl(nameOfPlan(plan), limitS * 1000, trial.ttlMs) : null;
}

/** Who may hold a lock for longer than this has time for a list, ms. */
const LISTS_MS = 120_000;

/** What each call takes, of the TTL: a list of {@link MANY} takes more than two TTLs. */
const EACH_SHARE = 0.3;

/**
 * Whether a function still calls something for an element of a list when its TTL has passed, one after the other, and nothing limits the
 * length of that. What is one transaction of a database takes as long as that.
 */
export async function goesThroughList(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench } = subject;
  if (!isUnbounded(subject) || refusesLate(bench)) return null;
  const ttlMs = await ttlOf(subject, plan);
  const limitMs = (platformLimitS(bench.program.texts) ?? Number.POSITIVE_INFINITY) * 1000;
  if (ttlMs > LISTS_MS || limitMs <= ttlMs) return null;
  const isScript = plan.use === 'script';
  const late = await repeatedPast(subject, plan, ttlMs, {
    share: EACH_SHARE,
    forMs: 2 * MANY * EACH_SHARE * ttlMs,
    least: MANY,
    leavesOut: isStatement,
    // What a file gets before it has the lock are the messages of its queue.
    ...(isScript ? { tell: (isHeld) => Object.assign(calls, { elements: isHeld ? MANY : 1 }) } : { elements: MANY }),
  });
  return late === null ? null : listExceedsTtl(nameOfPlan(plan), late.name, ttlMs);
}

/** Programs that take minutes and more, by what they do: media, dumps, copies, builds, and changes of infrastructure. */
const LONG_PROGRAMS =
  /^(?:ffmpeg|handbrake\w*|blender|pg_dump(?:all)?|pg_restore|mysqldump|mongodump|mongorestore|rsync|rclone|restic|borg|tar|terraform|ansible\w*|docker|podman|helm|npm|pnpm|yarn|make|cargo|gradlew?|mvn)$/i;

/** The name of the program in a command: `ffmpeg` of `/usr/bin/ffmpeg -i a`. */
const programIn = ([command]: readonly unknown[]): string => /([^\s/]+)(?:\s|$)/.exec(String(command))?.[1] ?? '';

/**
 * Whether a function starts a program that takes long, and nothing ends that: it has no time limit and no signal, and nobody kills it,
 * while the key of the lock is not extended.
 */
async function startsUnbounded(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench, how } = subject;
  const ttlMs = how.fixedTtlMs ?? Number.POSITIVE_INFINITY;
  const starts = bench.program.texts.some((it) => it.includes('child_process') && !/\.kill\(|\btimeout\b/.test(it));
  if (!starts || !Number.isFinite(ttlMs) || refusesLate(bench)) return null;
  let program = '';
  let isNext = false;
  const heard = (given: readonly unknown[], name: string): void => {
    isNext = name === 'spawn' && heldNow(bench) !== null && signalsIn(given).length === 0;
    if (isNext && LONG_PROGRAMS.test(programIn(given))) program ||= programIn(given);
  };
  const takes = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, isNext ? MORE_SHARE * ttlMs : 0));
  const { trial } = (await once(subject, plan, { heard, takes }, MORE_SHARE * ttlMs)) ?? {};
  if (program === '' || trial?.isGranted !== true || trial.sent.some(({ operation }) => operation === 'extend'))
    return null;
  return trial.isReleased ? programExceedsTtl(nameOfPlan(plan), program, ttlMs) : null;
}

/**
 * Whether comments say that something takes longer than the TTL, and the work of a function may: a call that no signal ends takes as long,
 * while the key is not extended.
 */
async function saysMore(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench, how } = subject;
  const ttlMs = how.fixedTtlMs ?? Number.POSITIVE_INFINITY;
  const said = longestSaid(bench.program.texts);
  if (said === null || said.ms <= ttlMs || refusesLate(bench)) return null;
  let isNext = false;
  let isLong = false;
  const heard = (given: readonly unknown[], name: string): void => {
    isNext = !isLong && isWork(name) && heldNow(bench) !== null && signalsIn(given).length === 0;
  };
  const takes = async (): Promise<void> => {
    if (!isNext || isLong) return;
    isLong = true;
    await new Promise((resolve) => setTimeout(resolve, MORE_SHARE * ttlMs));
  };
  const { trial } = (await once(subject, plan, { heard, takes }, MORE_SHARE * ttlMs)) ?? {};
  if (!isLong || trial?.isGranted !== true || trial.sent.some(({ operation }) => operation === 'extend')) return null;
  return trial.isReleased ? saidToExceedTtl(nameOfPlan(plan), ttlMs, said.sentence) : null;
}

/** The call with the longest time limit that a function makes under its lock, and that limit, ms; 0 where no call has one. */
async function longestLimit(
  subject: Runnable,
  plan: Plan,
): Promise<{ readonly name: string; readonly limitMs: number }> {
  /** Signals of calls that are not awaited yet. */
  const waiting: (readonly AbortSignal[])[] = [];
  let longest = { name: '', limitMs: 0 };
  const limitOf = limitsOfCalls();
  const heard = (given: readonly unknown[], name: string): void => {
    const limitMs = limitOf(given, name);
    if (heldNow(subject.bench) === null) return;
    if (limitMs > longest.limitMs && limitMs < LONGEST_LIMIT_MS) longest = { name, limitMs };
    const fromMs = nowMs();
    const signals = signalsIn(given).filter((it) => !it.aborted);
    const ended = (): void => {
      if (nowMs() - fromMs > longest.limitMs) longest = { name, limitMs: nowMs() - fromMs };
    };
    for (const signal of signals) signal.addEventListener('abort', ended);
    waiting.push(signals);
  };
  const takes = async (): Promise<void> => {
    const signals = waiting.shift() ?? [];
    if (signals.length > 0) await Promise.race(signals.map(aborted));
  };
  await once(subject, plan, { heard, takes }, LONGEST_LIMIT_MS);
  return longest;
}

/** More than its TTL lets it. */
const MORE_SHARE = 1.1;

/** Whether a function stores in its key that its work is done, and does so as well where that has failed. */
async function marksUndone(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench } = subject;
  const mark = (attempt: Attempt | undefined): string | null =>
    attempt?.held == null || attempt.trial?.isGranted !== true ? null : markIn(bench, attempt.trial);
  const done = mark(await once(subject, plan, {}));
  if (done === null || !IS_DONE.test(done)) return null;
  let isFailed = false;
  const takes = async (): Promise<void> => {
    isFailed ||= heldNow(bench) !== null;
    if (isFailed) throw new Error('it failed');
  };
  const failed = await once(subject, plan, { takes });
  return isFailed && mark(failed) === done ? marksAsDone(nameOfPlan(plan), done) : null;
}
