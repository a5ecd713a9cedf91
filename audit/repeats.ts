import { isWork, nameOfCall, ownerOf } from './called.js';
import type { Defect } from './defect.js';
import { takerIn } from './plan.js';
import { type Attempt, delayed, use } from './rehearsal.js';
import { roleOf } from './roles.js';
import type { Said } from './said.js';
import { LOOKS_BEFORE } from './shown-defects.js';
import { plays, REPLY_MS, type Subject, type Timed, useOf } from './subject.js';
import { type Touch, touchesIn } from './touches.js';
import type { Trial } from './trial.js';
import { LOOKS_FOR } from './unknown.js';

/** Names of keys that mark work as done. */
const IS_MARK = /done|processed|handled|applied|finished|completed|idempot/i;
const READS: readonly string[] = ['exists', 'get', 'hget', 'hexists', 'sismember'];

/** Whether work that is marked as done runs twice: a process reads the mark before another one sets it, and acquires after that. */
export async function doesTwice(subject: Subject): Promise<Defect | null> {
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
  for (let afterMs = 0.5; afterMs <= REPLY_MS; afterMs++) {
    const late = delayed('c2', 'n0', askedMs + afterMs, ttlMs / 2);
    const attempts = await plays(subject, [[first], [use(askedMs, ttlMs, 1)]], [late]);
    const [own, again] = [useOf(attempts, 'c1'), useOf(attempts, 'c2')];
    if (own !== undefined && again?.trial?.isGranted === true && again.acquiredMs > own.leftMs) return LOOKS_BEFORE;
  }
  return null;
}

/** What has been done is marked for longer than a cache keeps it, which is an hour at most, ms. */
const MARKED_MS = 4_000_000;
/** The same of what is said to be cached, and was only made: nothing is done a second time that may be done once. */
const MARKED_AS_CACHED_MS = 20 * 86_400_000;

/** From the end of a call until the next one, ms. */
const SOON_MS = 1_000;

/** What makes a value, by its name. */
const MAKES = /(?:^|\.)(?:render|build|load|compute|calculate|generate|fetch|produce|resize|aggregate|loader|factory)/i;
const SAYS_CACHED = /cache/i;

/** What does no harm twice: it is told so, or says so itself. */
const SAFE_TWICE = /upsert|once|if_?(?:absent|new|missing)|ensure|on conflict|or ignore|idempot|dedup/i;

/** What a call does that may have been done before. */
interface Repeat {
  readonly attempt: Attempt;
  /** What it has called of what it is handed. */
  readonly calls: readonly string[];
  readonly works: boolean;
  /** What it looks at besides its lock. */
  readonly looks: readonly Said[];
  /** What it stores under its lock, whatever is there. */
  readonly stores: readonly Touch[];
}

/** Whether a call that waits for the lock of another does the same work again, where a later call answers from what that has stored. */
export async function repeatsAfterWait(subject: Subject): Promise<Defect | null> {
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
export const SAYS_SAFE: RegExp = /\bunique\b|idempot|on conflict/i;

/**
 * Whether a call that waits for the lock of another works on what it is handed again, where it has looked there before it asked, and not
 * since: where the look finds something, nothing is done.
 */
export async function looksOnlyBefore(subject: Timed): Promise<Defect | null> {
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
    // A name of which it is not known that it looks does so inside, too: `first()` of a query builder.
    return !inside.includes(look) && same.length > 0 && same.every(isWork);
  };
  if (before.some((it) => LOOKS_FOR.test(it) && isOnlyBefore(it))) return LOOKS_BEFORE;
  const tables = (calls: readonly string[], statement: RegExp): readonly string[] =>
    calls.flatMap((it) => statement.exec(it)?.[1] ?? []);
  const [within, added] = [tables(trial.works, SELECTS_FROM), tables(trial.works, INSERTS_INTO)];
  const looked = tables(trial.calls.slice(0, before.length), SELECTS_FROM).filter((it) => !within.includes(it));
  return looked.some((it) => added.includes(it)) ? LOOKS_BEFORE : null;
}

/** The table that a statement looks in, or adds a record to. */
const SELECTS_FROM = /\bselect\b[\s\S]*?\bfrom\s+([\w."]+)/i;
const INSERTS_INTO = /\binsert\s+into\s+([\w."]+)/i;

/**
 * Whether it keeps what its work gives for an hour at most, or for days where that is said to be cached, and answers from that
 * meanwhile: who does the work a second time, as one that does not wait for the lock for longer, loses time alone.
 */
export async function isCache(subject: Subject): Promise<boolean> {
  const { how, ttlMs } = subject;
  if (how.plan.use === 'pair' || (how.plan.use === 'with' && !how.releases)) return false;
  const [own, early] = await twoCalls(subject, ttlMs / 2);
  if (own === undefined || own.calls.length === 0) return false;
  // Who is refused while the first still works answers from nothing.
  const { askedMs, leftMs } = own.attempt;
  const isRefused = early?.attempt.trial?.isGranted === false && !(early.attempt.askedMs >= leftMs);
  if (isRefused && Number.isNaN(leftMs)) return false;
  const soon = isRefused ? (await twoCalls(subject, leftMs - askedMs + SOON_MS))[1] : early;
  if (soon?.calls.length !== 0) return false;
  // One script may store it and release.
  const asks = soon.attempt.trial?.sent.some(({ operation }) => operation === 'acquire') ?? true;
  if (own.stores.length === 0 && asks) return false;
  const isMade = own.calls.every((it) => MAKES.test(nameOfCall(it)));
  const isSaid = subject.bench.program.sources.some(({ text }) => SAYS_CACHED.test(text));
  const [, later] = await twoCalls(subject, isMade && isSaid ? MARKED_AS_CACHED_MS : MARKED_MS);
  return later !== undefined && later.calls.length > 0;
}

/** Who has waited for so long for what another one makes makes it himself, ms. */
const WAITED_MS = 1_000;

/** It looks so often for what another one makes. */
const LOOKS_OFTEN = 3;

/** Whether a process that was refused the lock waits for what its holder makes, before it works without it. */
export async function waitsForHolder(subject: Subject): Promise<boolean> {
  const [, waiter] = await twoCalls(subject, 10 + subject.ttlMs / 8, subject.ttlMs / 2);
  const { askedMs = 0, trial = null } = waiter?.attempt ?? {};
  if (trial === null || trial.refusals === 0) return false;
  const [firstMs] = trial.worksAtMs.filter((_, i) => isWork(trial.works[i] ?? ''));
  if (firstMs !== undefined) return firstMs - askedMs >= WAITED_MS;
  return trial.sent.filter(({ verb, key }) => READS.includes(verb) && key !== trial.key).length >= LOOKS_OFTEN;
}

/**
 * Two calls for one key by two processes, the second of which is made so much later.
 *
 * @param workMs - What each part of the work takes. Default: a quarter of the TTL.
 */
async function twoCalls(
  subject: Timed,
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
      calls,
      works: calls.some((it) => isWork(it) && !SAFE_TWICE.test(it)),
      looks: trial?.sent.filter(({ verb, key }) => READS.includes(verb) && key !== trial.key) ?? [],
      stores: storesIn(subject, trial),
    };
  });
}

function storesIn({ bench }: Timed, trial: Trial | null): readonly Touch[] {
  if (trial?.key == null) return [];
  return touchesIn(bench, trial, new Set([trial.key])).filter(({ stored }) => stored !== null);
}

/** What a lock calls the work that it is handed. */
function workOf({ bench, how }: Timed): string {
  const taker = bench.program.shapes.find(({ name }) => name === takerIn(how.plan));
  const all = taker?.parameters.flatMap((it) => [it, ...it.fields]) ?? [];
  return all.find((it) => roleOf(it) === 'work')?.name ?? 'work';
}
