import { nameOfCall } from './called.js';
import type { Defect } from './defect.js';
import { refusesLate } from './fences.js';
import { limitsOfCalls } from './given-up.js';
import { isHarmful } from './late-safe.js';
import { retriesExceedTtl } from './limit-defects.js';
import { later } from './load.js';
import { nameOfPlan, type Plan } from './plan.js';
import { nowMs, OVER, once, ttlOf } from './played.js';
import { heldNow } from './rehearsal.js';
import { signalsIn } from './signals.js';
import type { Runnable } from './subject.js';

/** A file that tries again what has failed. */
const TRIES_AGAIN = /retr(?:y|ies)|attempt|backoff/i;
/** So many calls are made to fail, of so many functions, so often. */
const MOST_NAMES = 3;
const MOST_FAILURES = 6;

/** What became of a function one of whose calls failed several times. */
interface Tried {
  /** That was called again after the last failure, so long after the grant, ms. */
  readonly isAgain: boolean;
  readonly afterMs: number;
  /** Work was done after the TTL had passed. */
  readonly isLate: boolean;
}

/**
 * Whether a function that tries a call again goes on with its work after its TTL, where that call fails as often as it is tried again.
 */
export async function retriesPastTtl(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench } = subject;
  if (!bench.program.texts.some((it) => TRIES_AGAIN.test(it)) || refusesLate(bench)) return null;
  const ttlMs = await ttlOf(subject, plan);
  if (!Number.isFinite(ttlMs)) return null;
  const names = await awaitedBy(subject, plan);
  for (const name of names.slice(0, MOST_NAMES)) {
    for (let failures = 1; failures <= MOST_FAILURES; failures++) {
      const { isAgain, afterMs, isLate } = await tried(subject, plan, { ttlMs, name, failures });
      if (isLate) return retriesExceedTtl(nameOfPlan(plan), ttlMs, { name, failures, afterMs });
      if (!isAgain) break;
    }
  }
  return null;
}

/** The names of what a function awaits under its lock. */
async function awaitedBy(subject: Runnable, plan: Plan): Promise<readonly string[]> {
  const names = new Set<string>();
  let latest = '';
  const heard = (_: readonly unknown[], call: string): void => {
    latest = nameOfCall(call);
  };
  const takes = async (): Promise<void> => {
    if (heldNow(subject.bench) !== null) names.add(latest);
  };
  await once(subject, plan, { heard, takes });
  return [...names];
}

/** Calls a function, and has a call under its lock fail so often. */
async function tried(
  subject: Runnable,
  plan: Plan,
  { ttlMs, name, failures }: { readonly ttlMs: number; readonly name: string; readonly failures: number },
): Promise<Tried> {
  const { bench } = subject;
  const limitOf = limitsOfCalls();
  let [latest, failed, limitMs] = ['', 0, 0];
  let signals: readonly AbortSignal[] = [];
  let isUnlimited = false;
  let afterMs = Number.NaN;
  const lates: number[] = [];
  const heard = (given: readonly unknown[], call: string): void => {
    latest = nameOfCall(call);
    limitMs = limitOf(given, latest);
    signals = limitMs === 0 ? signalsIn(given) : [];
    const trial = heldNow(bench);
    const sinceMs = nowMs() - (trial?.grantedMs ?? Number.NaN);
    if (latest === name && failed === failures && Number.isNaN(afterMs)) afterMs = sinceMs;
    // What is tried again may only look.
    if (sinceMs > OVER * ttlMs && latest !== name && isHarmful(call, given)) lates.push(nowMs());
  };
  const takes = async (): Promise<void> => {
    if (latest !== name || failed >= failures || heldNow(bench) === null) return;
    failed++;
    // The longest that it may take to fail: a signal that does not abort by then is no time limit.
    const own = signals;
    await later(own.length > 0 ? 2 * ttlMs : limitMs);
    isUnlimited ||= own.length > 0 && !own.some(({ aborted }) => aborted);
    throw new Error('it failed');
  };
  const { trial, held = null, leftMs = Number.NaN } = (await once(subject, plan, { heard, takes }, 4 * ttlMs)) ?? {};
  const isAgain = !Number.isNaN(afterMs);
  const isKept = trial?.sent.some(({ operation }) => operation === 'extend') ?? true;
  const isReleased = trial?.isReleased ?? false;
  const isLate = held !== null && !isKept && isReleased && lates.some((atMs) => atMs <= leftMs);
  return { isAgain, afterMs, isLate: isLate && !isUnlimited };
}
