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
const LOOPS = /\bwhile\s*\(|\bfor\s*\(\s*;[^;]*;|\bfor\s*\([^;{}]*;\s*;|\bfor\s+await\s*\(/;
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

/** A call that is made when the TTL has passed, so long after the lock was granted, ms. */
interface Late {
  readonly name: string;
  readonly afterMs: number;
}

/** How a function is called whose work takes long. */
interface Long {
  /** What each call under the lock takes, of the TTL, and how long all may take, ms. */
  readonly share: number;
  readonly forMs: number;
  /** What is called less often is no work that is repeated. */
  readonly least: number;
  readonly elements?: number;
  /** Hears of each call, with whether the lock is held. Default: nobody. */
  readonly tell?: (isHeld: boolean) => void;
  /** Which calls are not looked at. Default: none. */
  readonly leavesOut?: (given: readonly unknown[]) => boolean;
}

/**
 * Calls a function, and finds a call which does harm that it repeats under its lock and still makes when its TTL has passed, before it ends
 * and releases the lock; `null` for none, and where it extends the lock. What looks at the time, at a signal or at its lock makes none.
 */
export async function repeatedPast(subject: Runnable, plan: Plan, ttlMs: number, how: Long): Promise<Late | null> {
  const { bench } = subject;
  const { share, forMs, least, elements = 1, tell, leavesOut } = how;
  const times = new Map<string, number>();
  const lates: (Late & { readonly atMs: number })[] = [];
  const heard = (given: readonly unknown[], call: string): void => {
    const name = nameOfCall(call);
    const trial = heldNow(bench);
    tell?.(trial !== null);
    if (trial === null || leavesOut?.(given)) return;
    times.set(name, (times.get(name) ?? 0) + 1);
    const afterMs = nowMs() - trial.grantedMs;
    if (afterMs > OVER * ttlMs && isHarmful(call, given)) lates.push({ name, atMs: nowMs(), afterMs });
  };
  // What comes before the lock is no work under it.
  const takes = (): Promise<void> => (heldNow(bench) === null ? Promise.resolve() : later(share * ttlMs));
  const { trial, held = null, leftMs = 0 } = (await once(subject, plan, { heard, takes, elements }, forMs)) ?? {};
  if (held === null || trial?.isReleased !== true) return null;
  if (trial.sent.some(({ operation }) => operation === 'extend')) return null;
  // A file that works as it is loaded has no end.
  const isBefore = (atMs: number): boolean => plan.use === 'script' || atMs <= leftMs;
  return lates.find(({ name, atMs }) => isBefore(atMs) && (times.get(name) ?? 0) >= least) ?? null;
}

/** Whether a function goes on with its work after its TTL for as long as there is more to do. */
export async function pagesPastTtl(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const { bench } = subject;
  if (refusesLate(bench) || !bench.program.texts.some((it) => LOOPS.test(it))) return null;
  const ttlMs = await ttlOf(subject, plan);
  if (ttlMs > LONG_MS || ttlMs < SHORT_MS) return null;
  const own = { ...subject, bench: { ...bench, finds: true } };
  const how = { share: SHARE, forMs: 4 * MOST_CALLS * SHARE * ttlMs, least: MOST_CALLS };
  const late = await withPages(2 * MOST_CALLS, () => repeatedPast(own, plan, ttlMs, how));
  return late === null ? null : goesOnUntilNothingIsLeft(nameOfPlan(plan), ttlMs, late);
}
