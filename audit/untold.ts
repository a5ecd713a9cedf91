import { current } from '../libraries/runtime/owner.js';
import type { Fault, Schedule } from '../scenarios/index.js';
import { isWork, nameOfCall } from './called.js';
import type { Defect } from './defect.js';
import { withPages } from './endless.js';
import { refusesLate } from './fences.js';
import { isHarmful } from './late-safe.js';
import { overtakenOf } from './leaders.js';
import {
  EXTENDS_OLD,
  GOES_ON,
  IGNORES_EXTENSION,
  IGNORES_REFUSAL,
  LEADS_TOO_LONG,
  STOPS_EXTENDING,
} from './loss-defects.js';
import { type Attempt, calm, cutOff, heldNow, REST_MS, rehearse, releasedIn, use } from './rehearsal.js';
import type { Said } from './said.js';
import { signalsIn } from './signals.js';
import { locksRecords, transactionStepOf } from './statements.js';
import type { Runnable } from './subject.js';

/** What a function did of its own work after a step of it that took long. */
interface Went {
  readonly attempts: readonly Attempt[];
  /** What it called after that, before it released the lock, and was not told to stop. */
  readonly later: readonly string[];
  /** Something of that is work which does harm where it is late. */
  readonly isHarm: boolean;
  /** As that ended, a part of its work had been told to stop. */
  readonly isTold: boolean;
  /** The name of that step, where it does harm, and when it began and ended, ms; not a number where there was none. */
  readonly step: { readonly name: string; readonly fromMs: number; readonly toMs: number };
}

/** Whether it did all of its later work, or all that repeats its long step: a loop that looks at nothing, and what looks after it. */
function isAllOf({ later: done, isHarm, step }: Went, later: readonly string[]): boolean {
  if (String(done) === String(later)) return true;
  const last = later.lastIndexOf(step.name);
  return isHarm && last >= 0 && last < done.length && done.every((it, i) => it === later[i]);
}

/** The calls of a function, without those of transactions that it has rolled back. */
class Committed {
  readonly names: string[] = [];
  isHarm = false;
  private open: { readonly names: string[]; isHarm: boolean; isLocked: boolean } | null = null;

  /** @param counts - Whether it is noted. What begins a transaction is heard in any case. */
  hear(name: string, given: readonly unknown[], counts: boolean): void {
    const step = transactionStepOf(nameOfCall(name), given);
    if (step === 'begin') this.open = { names: [], isHarm: false, isLocked: false };
    if (step === 'commit' && this.open !== null) {
      this.names.push(...this.open.names);
      this.isHarm ||= this.open.isHarm && !this.open.isLocked;
    }
    if (this.open !== null) this.open.isLocked ||= locksRecords(given);
    if (step === 'commit' || step === 'rollback') this.open = null;
    if (!counts) return;
    const into = this.open ?? this;
    into.names.push(step ?? name);
    into.isHarm ||= step === null && isHarmful(name, given);
  }
}

/** What extends a lock beside the work. */
const TIMERS = /\bset(?:Interval|Timeout)\s*\(|\.using\(/;

/** A step that takes long takes so many TTLs. */
const STEP_TTLS = 3;
/** Each of so many first steps is tried as that. */
const MOST_STEPS = 3;

/**
 * What is in the way of the first process: nothing, its connections are cut for longer than a TTL, or it is paused for as long, also
 * until another process has the lock.
 */
type Trouble = 'none' | 'cut' | 'paused' | 'overtaken';

/** Whether a function goes on with its work when its lock was another's. */
export interface Untold {
  /** It goes on with the next steps of its work though its extension was refused, as it would with the lock. */
  readonly goesOnUntold: boolean;
  /** The work itself extends the lock, between its steps. */
  readonly extendsInSteps: boolean;
  /** It goes on so because its extension is granted whosever the key is: the verb of that. */
  readonly extendsAny: string | null;
  /** What is wrong where it extends its lock for a while, and no longer, though its work goes on and nothing is in its way. */
  readonly stopsExtending: Defect | null;
  /** It sets its key again where that has expired, and goes on. */
  readonly revivesUntold: boolean;
  /** It goes on as the leader where it cannot extend its lock and another leads. */
  readonly leadsOn: boolean;
  /** The same where its renewal is refused after a pause. */
  readonly ignoresRefusal: boolean;
}

/**
 * How a function that extends its lock while it works loses it. Its steps are what it awaits of what it was handed.
 *
 * @param loops - It goes on until it is told to stop, and may acquire the lock several times.
 */
export async function untoldOf(subject: Runnable, loops: boolean): Promise<Untold> {
  const { bench, how } = subject;
  const { leadsOn: isCutOff, ignoresRefusal, renewsAny } = await overtakenOf(subject);
  const none = {
    goesOnUntold: false,
    extendsInSteps: false,
    extendsAny: renewsAny,
    stopsExtending: null,
    revivesUntold: false,
    leadsOn: isCutOff,
    ignoresRefusal,
  };
  const ttlMs = how.fixedTtlMs;
  if (isCutOff || ignoresRefusal || renewsAny !== null) return none;
  const isScript = how.plan.use === 'script';
  if (how.plan.use !== 'handler' && !(isScript && loops)) return none;
  if (ttlMs === null || refusesLate(bench) || (loops && !how.releases && !isScript)) return none;
  if (loops && (await leadsOn(subject, ttlMs))) return { ...none, leadsOn: true };
  if (isScript) return none;
  // What is told to stop by its caller is not, for so long.
  const holdMs = loops ? 2 * STEP_TTLS * ttlMs : 1;
  const kept = await worked(subject, ttlMs, 'none', { holdMs });
  const [own] = kept.attempts;
  const extension = own?.trial?.sent.find(
    ({ operation, key, atMs }) =>
      operation === 'extend' && key === own.trial?.key && atMs > own.trial.grantedMs + ttlMs / 20,
  );
  if (extension === undefined || own?.releaseError !== null) return none;
  if (isLeftAlone(own, kept.step, ttlMs))
    return { ...none, stopsExtending: bench.clients.givesNewLocks ? EXTENDS_OLD : STOPS_EXTENDING };
  if (!how.releases) return none;
  const goesOn = async (trouble: Trouble, at: number): Promise<boolean> => {
    // What is extended between the steps may have been lost where one takes long.
    const { later, isHarm } = await worked(subject, ttlMs, 'none', { at, stepMs: ttlMs / 20, holdMs });
    if (!isHarm) return false;
    const lost = await worked(subject, ttlMs, trouble, { at, holdMs });
    const [first, other] = lost.attempts;
    if (first?.held == null || other?.held == null || !isOfRelease(first.releaseError)) return false;
    // What nobody awaits goes on when the function has ended.
    if (first.leftMs < lost.step.toMs) return false;
    const isLost = other.acquiredMs < first.acquiredMs + STEP_TTLS * ttlMs;
    const isSetAgain = first.trial?.sent.some(
      ({ operation, key, atMs }) => operation === 'acquire' && key === first.trial?.key && atMs > other.leftMs,
    );
    // A signal of its own time limit tells nothing of the lock.
    const isTold = lost.isTold && !kept.isTold;
    return isLost && !isTold && isAllOf(lost, later) && (trouble !== 'paused' || isSetAgain === true);
  };
  const extendsAny = extension.compares ? null : extension.verb.toUpperCase();
  for (let at = 0; at < MOST_STEPS; at++)
    if (await goesOn('cut', at))
      return {
        ...none,
        goesOnUntold: extendsAny === null,
        extendsInSteps: extendedIn(own, kept.step).length === 0 || !bench.program.texts.some((it) => TIMERS.test(it)),
        extendsAny,
      };
  // After a pause it may extend the key of the next holder, and nothing has told it that no answer came.
  if (extendsAny !== null && (await goesOn('overtaken', 0))) return { ...none, extendsAny };
  return { ...none, revivesUntold: await goesOn('paused', 0) };
}

/** The extensions of a lock within a step of its work. */
function extendedIn({ trial }: Attempt, { fromMs, toMs }: Went['step']): readonly Said[] {
  const isWithin = ({ operation, key, atMs }: Said): boolean =>
    operation === 'extend' && key === trial?.key && atMs > fromMs + 1 && atMs < toMs;
  return trial?.sent.filter(isWithin) ?? [];
}

/** Whether a lock was extended within a step of its work, and then not for longer than a TTL of that. */
function isLeftAlone(attempt: Attempt, step: Went['step'], ttlMs: number): boolean {
  const { fromMs, toMs } = step;
  const { leftMs } = attempt;
  const last = extendedIn(attempt, step).at(-1);
  // A time limit may have ended the step.
  const untilMs = leftMs > fromMs ? Math.min(toMs, leftMs) : toMs;
  return last !== undefined && untilMs - last.atMs > 1.05 * ttlMs;
}

/** Whether a call went on to its end: a library throws there, if anything does, as its key is another's. */
function isOfRelease(error: unknown): boolean {
  return error === null || (error instanceof Error && /^(?:Execution|ResourceLocked|Lock)Error$/.test(error.name));
}

/** Whether one that leads, and is cut off from the nodes for longer than a TTL, goes on with its work beside the next leader. */
async function leadsOn({ bench, hosts, how }: Runnable, ttlMs: number): Promise<boolean> {
  const schedule = calm(
    how.nodes,
    [[use(10, ttlMs, 5 * ttlMs)], [use(ttlMs / 5, ttlMs, 5 * ttlMs)]],
    (8 * ttlMs + REST_MS) * 1000,
  );
  const faults = [cutOff('c1', how.nodes, ttlMs / 2, 3 * ttlMs)];
  const own: number[] = [];
  const heard = (given: readonly unknown[], name: string): void => {
    const { owner } = current;
    const isTold = signalsIn(given).some(({ aborted }) => aborted);
    if (owner?.name === 'c1' && isWork(name) && !isTold) own.push(owner.wallMs());
  };
  const attempts = await rehearse(bench, hosts, how, { ...schedule, faults }, { naturally: true, heard });
  const [first, next] = ['c1', 'c2'].map((name) => attempts.find(({ client }) => client === name));
  const { grantedMs = Number.NaN, works = [] } = next?.trial ?? {};
  const askedMs = first?.askedMs ?? Number.NaN;
  // Until then it may have led for several short terms. Its key has expired then, and it cannot get another one.
  const overMs = Math.max(grantedMs + ttlMs / 20, askedMs + 1.55 * ttlMs);
  return works.length > 0 && own.some((atMs) => atMs > overMs && atMs < askedMs + 3.5 * ttlMs);
}

/** The first process loses its lock by some trouble, and a second one asks for it. */
function troubled({ nodes }: Runnable['how'], ttlMs: number, trouble: Trouble, holdMs: number): Schedule {
  const schedule = calm(
    nodes,
    [[use(10, ttlMs, holdMs)], ...(trouble === 'none' ? [] : [[use(1.6 * ttlMs, ttlMs, holdMs)]])],
    (8 * ttlMs + REST_MS) * 1000,
  );
  const cut = cutOff('c1', nodes, 0.3 * ttlMs, 1.5 * ttlMs);
  const { atUs, forUs } = cut;
  const pause: Fault = { kind: 'pause', process: 'c1', atUs, forUs };
  const faults: Readonly<Record<Trouble, Fault[]>> = { none: [], cut: [cut], paused: [pause], overtaken: [pause] };
  return { ...schedule, faults: faults[trouble] };
}

async function worked(
  { bench, hosts, how }: Runnable,
  ttlMs: number,
  trouble: Trouble,
  {
    at = 0,
    stepMs = STEP_TTLS * ttlMs,
    holdMs,
  }: { readonly at?: number; readonly stepMs?: number; readonly holdMs: number },
): Promise<Went> {
  let [steps, isDone, isTold] = [0, false, false];
  const step = { name: '', fromMs: Number.NaN, toMs: Number.NaN };
  const done = new Committed();
  const signals = new Set<AbortSignal>();
  /** What it had released when that step was over: that is no release that ends its work, as of an extension that fails. */
  let releasedBefore = 0;
  const isWorking = (): boolean => {
    if (current.owner?.name !== 'c1') return false;
    if (!isDone) return heldNow(bench) !== null;
    const trial = bench.wire.trialOf(current.owner);
    if (trial === null) return false;
    const { releases, key, grantedMs } = trial;
    return !releasedIn({ releases: releases.slice(releasedBefore), key, grantedMs });
  };
  /** The transaction in which that step is, if it is in one: that commits all its steps, or none. */
  let within: object | undefined;
  const openNow = (): object | undefined =>
    heldNow(bench)?.transactions.findLast(({ to }) => to === Number.POSITIVE_INFINITY);
  let isOtherSlow = trouble === 'cut' || trouble === 'overtaken';
  const takes = async (): Promise<void> => {
    if (current.owner?.name === 'c2' && isOtherSlow) {
      // It has the lock when the first one is back, and for as long as that goes on.
      isOtherSlow = false;
      await new Promise((resolve) => setTimeout(resolve, trouble === 'cut' ? ttlMs / 2 : STEP_TTLS * ttlMs));
    }
    if (!isWorking() || steps++ !== at) return;
    step.name = lastName;
    step.fromMs = current.owner?.wallMs() ?? Number.NaN;
    within = openNow();
    await new Promise((resolve) => setTimeout(resolve, stepMs));
    step.toMs = current.owner?.wallMs() ?? Number.NaN;
    isDone = true;
    releasedBefore = current.owner === null ? 0 : (bench.wire.trialOf(current.owner)?.releases.length ?? 0);
    isTold = [...signals].some(({ aborted }) => aborted);
  };
  let lastName = '';
  const heard = (given: readonly unknown[], name: string): void => {
    if (!isWorking()) return;
    lastName = isHarmful(name, given) ? name : '';
    const own = signalsIn(given);
    for (const signal of own) signals.add(signal);
    const isWithin = within !== undefined && openNow() === within;
    done.hear(name, given, isDone && !own.some(({ aborted }) => aborted) && !isWithin);
  };
  const ways = { naturally: true, heard, takes, elements: 2 };
  const attempts = await withPages(MOST_STEPS, () =>
    rehearse(bench, hosts, how, troubled(how, ttlMs, trouble, holdMs), ways),
  );
  return { attempts, later: done.names, isHarm: done.isHarm, isTold, step };
}

/** What is wrong with how a function that does its own work keeps its lock. */
export function untoldDefects({
  goesOnUntold,
  extendsInSteps,
  leadsOn,
  ignoresRefusal,
  stopsExtending,
}: Untold): Defect[] {
  const told = [
    [goesOnUntold, extendsInSteps ? IGNORES_EXTENSION : GOES_ON],
    [leadsOn, LEADS_TOO_LONG],
    [ignoresRefusal, IGNORES_REFUSAL],
  ] as const;
  const found = told.filter(([isSo]) => isSo).map(([, defect]) => defect);
  return stopsExtending === null ? found : [...found, stopsExtending];
}
