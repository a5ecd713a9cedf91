import { isWork } from './called.js';
import type { Defect } from './defect.js';
import { isHarmful } from './late-safe.js';
import type { Plan } from './plan.js';
import { nowMs, once } from './played.js';
import { heldNow } from './rehearsal.js';
import { GIVES_UP_ALONE } from './shown-defects.js';
import { signalsIn } from './signals.js';
import type { Runnable } from './subject.js';
import { touchesIn } from './touches.js';
import { isUnknown } from './unknown.js';

/* Work that a function gives up at a time limit, and that goes on without its lock. */

/** What makes a client of a server. */
const MAKES_CLIENT = /(?:^|\.)create$/;
/** Less is no time limit in ms. */
const LEAST_LIMIT_MS = 500;

/** The `timeout` among options, ms; 0 where there is none. */
function timeoutIn(given: readonly unknown[]): number {
  const limits = given.map((it): unknown =>
    typeof it === 'object' && it !== null && !isUnknown(it) ? Reflect.get(it, 'timeout') : null,
  );
  return limits.find((it): it is number => typeof it === 'number' && it >= LEAST_LIMIT_MS) ?? 0;
}

/** The time limit of each call, ms, as it is heard: its own, or that of its client, as of `axios.create({ timeout })`; 0 for none. */
export function limitsOfCalls(): (given: readonly unknown[], name: string) => number {
  const ofClients = new Map<string, number>();
  return (given, name) => {
    const ownMs = timeoutIn(given);
    if (MAKES_CLIENT.test(name)) ofClients.set(`${name}.`, ownMs);
    const [, clientsMs = 0] = [...ofClients].find(([made]) => name.startsWith(made)) ?? [];
    return ownMs || clientsMs;
  };
}

/** Each part of the work takes this share of the TTL, or of the time limit that its function has: what has one for all of them gives up. */
const PART_SHARE = 0.45;
const MORE_SHARE = 1.1;

/** The longest timer that a function sets while it has the lock, ms; 0 for none. */
async function longestTimer(subject: Runnable, plan: Plan): Promise<number> {
  let longestMs = 0;
  const timed = (delayMs: number): void => {
    if (heldNow(subject.bench) !== null) longestMs = Math.max(longestMs, delayMs);
  };
  await once(subject, plan, { timed });
  return longestMs;
}

/** What gives up. */
const GIVES_UP = /\bPromise\.race\(|\bp-?timeout\b/i;

/** Whether it says that it gives up what takes too long. */
export function givesUp({ bench }: Runnable): boolean {
  return bench.program.texts.some((it) => GIVES_UP.test(it));
}

/**
 * Whether a function gives its work up and releases the lock, and the work begins with more parts after that. What is handed a signal may
 * be stopped by it.
 */
export async function goesOnGivenUp(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const ttlMs = subject.how.fixedTtlMs ?? 0;
  if (await goesOnAfter(subject, plan, PART_SHARE * ttlMs)) return GIVES_UP_ALONE;
  const limitMs = await longestTimer(subject, plan);
  return limitMs > 0 && (await goesOnAfter(subject, plan, MORE_SHARE * limitMs)) ? GIVES_UP_ALONE : null;
}

/** What has begun, and how long it takes. */
interface Begun {
  readonly name: string;
  readonly atMs: number;
  readonly forMs: number;
  /** What it was handed, where it is one call that nothing ends, and that does harm where it is late; `null` for any other one. */
  readonly given: readonly unknown[] | null;
  /** Somebody waits for it. */
  isAwaited: boolean;
}

/** @param takesMs - What each part of the work takes; no more than its own time limit, if it is done once. */
async function goesOnAfter(subject: Runnable, plan: Plan, takesMs: number): Promise<boolean> {
  const begun: Begun[] = [];
  const limitOf = limitsOfCalls();
  /** Calls that have been made. */
  const made = new Set<string>();
  let isTold = false;
  let mostMs = takesMs;
  const heard = (given: readonly unknown[], name: string): void => {
    isTold ||= signalsIn(given).length > 0;
    const limitMs = limitOf(given, name);
    const call = `${name} ${typeof given[0] === 'string' ? given[0] : ''}`;
    mostMs = limitMs > 0 && !made.has(call) ? Math.min(limitMs, takesMs) : takesMs;
    made.add(call);
    const isEndless = limitMs === 0 && isHarmful(name, given);
    begun.push({ name, atMs: nowMs(), forMs: mostMs, given: isEndless ? given : null, isAwaited: false });
  };
  const takes = (given: readonly unknown[]): Promise<void> => {
    for (const it of begun) it.isAwaited ||= it.given === given;
    // To wait for the next element of a list is no call.
    begun.push({ name: '', atMs: nowMs(), forMs: mostMs, given: null, isAwaited: true });
    return new Promise((resolve) => setTimeout(resolve, mostMs));
  };
  const attempt = await once(subject, plan, { heard, takes, elements: 3 }, 20 * takesMs);
  const { trial, leftMs = Number.NaN } = attempt ?? {};
  if (isTold || trial?.isGranted !== true || trial.ttlMs === null) return false;
  const release = trial.sent.find(
    ({ operation, key, atMs }) => operation === 'release' && key === trial.key && atMs >= trial.grantedMs,
  );
  const givenUpMs = Math.max(leftMs, release?.atMs ?? Number.NaN);
  // Its process may do the same again, under the lock.
  const again = trial.sent.find(
    ({ operation, key, atMs }) => operation === 'acquire' && key === trial.key && atMs > givenUpMs,
  );
  const untilMs = again?.atMs ?? Number.POSITIVE_INFINITY;
  const underWay = begun.filter(({ atMs, forMs }) => atMs < givenUpMs && atMs + forMs > givenUpMs);
  const stores = touchesIn(subject.bench, trial, new Set([trial.key ?? '']), givenUpMs + 1, true);
  const goesOn =
    (givesUp(subject) && underWay.some(({ given, isAwaited }) => given !== null && isAwaited)) ||
    begun.some(({ name, atMs }) => isWork(name) && atMs > givenUpMs && atMs < untilMs) ||
    stores.some(({ stored, atMs }) => stored !== null && atMs < untilMs);
  const isExtended = trial.sent.some(({ operation }) => operation === 'extend');
  return underWay.length > 0 && goesOn && (isExtended || givenUpMs < trial.grantedMs + trial.ttlMs);
}
