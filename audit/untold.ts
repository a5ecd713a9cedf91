import { current } from '../libraries/runtime/owner.js';
import type { Fault } from '../scenarios/index.js';
import { isWork } from './called.js';
import type { Defect } from './defect.js';
import { refusesLate } from './fences.js';
import { isHarmful } from './late-safe.js';
import { overtakenOf } from './leaders.js';
import { GOES_ON, IGNORES_REFUSAL, LEADS_TOO_LONG, STOPS_EXTENDING } from './loss-defects.js';
import { type Attempt, calm, cutOff, heldNow, REST_MS, rehearse, use } from './rehearsal.js';
import type { Runnable } from './subject.js';
import { signalsIn } from './unknown.js';

/** What a function did of its own work after a step of it that took long. */
interface Went {
  readonly attempts: readonly Attempt[];
  /** What it called after that, before it released the lock, and was not told to stop. */
  readonly later: readonly string[];
  /** Something of that is work which does harm where it is late. */
  readonly isHarm: boolean;
  /** As that ended, a part of its work had been told to stop. */
  readonly isTold: boolean;
  /** When that step began and ended, ms; not a number where there was none. */
  readonly step: { readonly fromMs: number; readonly toMs: number };
}

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
  /** It goes on so because its extension is granted whosever the key is: the verb of that. */
  readonly extendsAny: string | null;
  /** It extends its lock for a while, and no longer, though its work goes on and nothing is in its way. */
  readonly stopsExtending: boolean;
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
  const { ignoresRefusal, renewsAny } = await overtakenOf(subject);
  const none = {
    goesOnUntold: false,
    extendsAny: renewsAny,
    stopsExtending: false,
    revivesUntold: false,
    leadsOn: false,
    ignoresRefusal,
  };
  const ttlMs = how.fixedTtlMs;
  if (ignoresRefusal || renewsAny !== null) return none;
  if (how.plan.use !== 'handler' || ttlMs === null || refusesLate(bench) || (loops && !how.releases)) return none;
  if (loops) return { ...none, leadsOn: await leadsOn(subject, ttlMs) };
  const kept = await worked(subject, ttlMs, 'none');
  const [own] = kept.attempts;
  const extension = own?.trial?.sent.find(
    ({ operation, key, atMs }) =>
      operation === 'extend' && key === own.trial?.key && atMs > own.trial.grantedMs + ttlMs / 20,
  );
  if (extension === undefined || own?.releaseError !== null) return none;
  if (isLeftAlone(own, kept.step, ttlMs)) return { ...none, stopsExtending: true };
  if (!how.releases) return none;
  const goesOn = async (trouble: Trouble, at: number): Promise<boolean> => {
    // What is extended between the steps may have been lost where one takes long.
    const { later, isHarm } = await worked(subject, ttlMs, 'none', at, ttlMs / 20);
    if (!isHarm) return false;
    const lost = await worked(subject, ttlMs, trouble, at);
    const [first, other] = lost.attempts;
    if (first?.held == null || other?.held == null || !isOfRelease(first.releaseError)) return false;
    const isLost = other.acquiredMs < first.acquiredMs + STEP_TTLS * ttlMs;
    const isSetAgain = first.trial?.sent.some(
      ({ operation, key, atMs }) => operation === 'acquire' && key === first.trial?.key && atMs > other.leftMs,
    );
    // A signal of its own time limit tells nothing of the lock.
    const isTold = lost.isTold && !kept.isTold;
    const isSame = String(lost.later) === String(later);
    return isLost && !isTold && isSame && (trouble !== 'paused' || isSetAgain === true);
  };
  const extendsAny = extension.compares ? null : extension.verb.toUpperCase();
  for (let at = 0; at < MOST_STEPS; at++)
    if (await goesOn('cut', at)) return { ...none, goesOnUntold: extendsAny === null, extendsAny };
  // After a pause it may extend the key of the next holder, and nothing has told it that no answer came.
  if (extendsAny !== null && (await goesOn('overtaken', 0))) return { ...none, extendsAny };
  return { ...none, revivesUntold: await goesOn('paused', 0) };
}

/** Whether a lock was extended within a step of its work, and then not for longer than a TTL of that. */
function isLeftAlone({ trial, leftMs }: Attempt, { fromMs, toMs }: Went['step'], ttlMs: number): boolean {
  const within = trial?.sent.filter(
    ({ operation, key, atMs }) => operation === 'extend' && key === trial.key && atMs > fromMs + 1 && atMs < toMs,
  );
  const last = within?.at(-1);
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

async function worked(
  { bench, hosts, how }: Runnable,
  ttlMs: number,
  trouble: Trouble,
  at = 0,
  stepMs: number = STEP_TTLS * ttlMs,
): Promise<Went> {
  const schedule = calm(
    how.nodes,
    [[use(10, ttlMs, 1)], ...(trouble === 'none' ? [] : [[use(1.6 * ttlMs, ttlMs, 1)]])],
    (8 * ttlMs + REST_MS) * 1000,
  );
  const cut = cutOff('c1', how.nodes, 0.3 * ttlMs, 1.5 * ttlMs);
  const { atUs, forUs } = cut;
  const faults: Readonly<Record<Trouble, Fault[]>> = {
    none: [],
    cut: [cut],
    paused: [{ kind: 'pause', process: 'c1', atUs, forUs }],
    overtaken: [{ kind: 'pause', process: 'c1', atUs, forUs }],
  };
  let [steps, isDone, isTold] = [0, false, false];
  const step = { fromMs: Number.NaN, toMs: Number.NaN };
  const later: string[] = [];
  let isHarm = false;
  const signals = new Set<AbortSignal>();
  const isWorking = (): boolean => current.owner?.name === 'c1' && heldNow(bench) !== null;
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
    step.fromMs = current.owner?.wallMs() ?? Number.NaN;
    within = openNow();
    await new Promise((resolve) => setTimeout(resolve, stepMs));
    step.toMs = current.owner?.wallMs() ?? Number.NaN;
    isDone = true;
    isTold = [...signals].some(({ aborted }) => aborted);
  };
  const heard = (given: readonly unknown[], name: string): void => {
    if (!isWorking()) return;
    const own = signalsIn(given);
    for (const signal of own) signals.add(signal);
    if (!isDone || own.some(({ aborted }) => aborted)) return;
    const isWithin = within !== undefined && openNow() === within;
    if (isWithin) return;
    later.push(name);
    isHarm ||= isHarmful(name, given);
  };
  const ways = { naturally: true, heard, takes, elements: 2 };
  const attempts = await rehearse(bench, hosts, how, { ...schedule, faults: faults[trouble] }, ways);
  return { attempts, later, isHarm, isTold, step };
}

/** What is wrong with how a function that does its own work keeps its lock. */
export function untoldDefects({ goesOnUntold, leadsOn, ignoresRefusal, stopsExtending }: Untold): Defect[] {
  const told = [
    [goesOnUntold, GOES_ON],
    [leadsOn, LEADS_TOO_LONG],
    [ignoresRefusal, IGNORES_REFUSAL],
    [stopsExtending, STOPS_EXTENDING],
  ] as const;
  return told.filter(([isSo]) => isSo).map(([, defect]) => defect);
}
