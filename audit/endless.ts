import { current } from '../libraries/runtime/owner.js';
import { nameOfCall } from './called.js';
import type { Defect } from './defect.js';
import { refusesLate } from './fences.js';
import { isHarmful } from './late-safe.js';
import { goesOnUntilNothingIsLeft } from './limit-defects.js';
import { later } from './load.js';
import { nameOfPlan, type Plan } from './plan.js';
import { nowMs, OVER, once, ttlOf } from './played.js';
import { heldNow } from './rehearsal.js';
import type { CheckedType } from './required.js';
import type { Runnable } from './subject.js';
import { calls, MOST_CALLS } from './unknown.js';

/** A loop of which the text does not say how often it is done. */
const LOOPS = /\bwhile\s*\(|\bfor\s*\(\s*;[^;]*;|\bfor\s+await\s*\(/;
/** What says that there is more, by its name. */
const LEADS_ON = /more|next|cursor|continuation|after/i;
/** Who may hold a lock for longer than this has time for much work, ms. */
const LONG_MS = 60_000;
/** Less is no TTL that somebody has chosen for the work, ms. */
const SHORT_MS = 500;
/** What each call takes, of the TTL. */
const SHARE = 1 / 20;

/** Runs something where each task finds so many next pages, as far as a loop asks for one: otherwise, there is none after the first. */
export async function withPages<T>(pages: number, run: () => Promise<T>): Promise<T> {
  const { types } = calls;
  const read = new WeakMap<object, number>();
  const get = (name: string): CheckedType | undefined => {
    const type = types.get(name);
    const task = current.owner?.task ?? null;
    if (type !== 'absent' || task === null || !LEADS_ON.test(name)) return type;
    const times = (read.get(task) ?? 0) + 1;
    read.set(task, times);
    return times <= pages ? undefined : type;
  };
  calls.types = { get };
  try {
    return await run();
  } finally {
    calls.types = types;
  }
}

/**
 * Whether a function goes on with its work after its TTL for as long as there is more to do. What looks at the time, at a signal or at its
 * lock before it goes on does no work then.
 */
export async function pagesPastTtl(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench } = subject;
  if (refusesLate(bench) || !bench.program.texts.some((it) => LOOPS.test(it))) return null;
  const ttlMs = await ttlOf(subject, plan);
  if (ttlMs > LONG_MS || ttlMs < SHORT_MS) return null;
  const times = new Map<string, number>();
  const lates: { readonly name: string; readonly atMs: number; readonly afterMs: number }[] = [];
  const heard = (given: readonly unknown[], call: string): void => {
    const name = nameOfCall(call);
    const trial = heldNow(bench);
    if (trial === null) return;
    times.set(name, (times.get(name) ?? 0) + 1);
    const afterMs = nowMs() - trial.grantedMs;
    if (afterMs > OVER * ttlMs && isHarmful(call, given)) lates.push({ name, atMs: nowMs(), afterMs });
  };
  // What comes before the lock is no work under it.
  const takes = (): Promise<void> => (heldNow(bench) === null ? Promise.resolve() : later(SHARE * ttlMs));
  const forMs = 4 * MOST_CALLS * SHARE * ttlMs;
  const own = { ...subject, bench: { ...bench, finds: true } };
  const attempt = await withPages(2 * MOST_CALLS, () => once(own, plan, { heard, takes }, forMs));
  const { trial, held = null, leftMs = Number.NaN } = attempt ?? {};
  if (held === null || trial?.sent.some(({ operation }) => operation === 'extend') !== false) return null;
  const late = lates.find(({ name, atMs }) => atMs <= leftMs && (times.get(name) ?? 0) >= MOST_CALLS);
  return trial.isReleased && late !== undefined ? goesOnUntilNothingIsLeft(nameOfPlan(plan), ttlMs, late) : null;
}
