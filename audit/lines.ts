import type { Fault } from '../scenarios/index.js';
import { WAITS_FOR_MESSAGE } from './causes.js';
import type { Defect } from './defect.js';
import { use } from './rehearsal.js';
import { plays, type Subject, useOf } from './subject.js';

/* Locks whose waiters stand in a line, which is a list or a sorted set, or wait for a message. */

/** Adds to a list or a sorted set. */
const ADDS = /\b[rl]push\b|\bzadd\b/i;

/** A lock with a line in which the place of a waiter is not freed. */
const KEEPS_PLACE: Defect = {
  id: 'waiter-kept',
  sentence:
    'its waiters stand in a line (a list or a sorted set), and one that dies while it waits, or gives up, stays in it: its ticket is never removed, comes to the head of the queue, and nobody gets the lock after that',
  fix: 'remove the own ticket where the wait ends without the lock (LREM, ZREM), and give each ticket a time after which the others take it out',
  brings: ['unavailable', 'hang'],
  property: 'deadlock-free',
  isShown: true,
};

/** Whether its waiters may stand in a line, by its text. */
export function hasLine({ bench }: Subject): boolean {
  return bench.program.texts.some((it) => ADDS.test(it));
}

/** The last process asks when all TTLs are over that a ticket may have, ms. */
const LONG_MS = 86_400_000;

/** A waiter stands in the line by then, ms. */
const WAITED_MS = 250;

/** Whether nobody gets the lock any longer when a process has died that waited for it. */
export async function keepsPlace(subject: Subject): Promise<Defect | null> {
  const { ttlMs } = subject;
  const [first, waiter, last] = [use(10, ttlMs, 0.8 * ttlMs), use(ttlMs / 4, ttlMs, 1), use(LONG_MS, ttlMs, 1)];
  // Before it gives up.
  const diesMs = ttlMs / 4 + Math.min(ttlMs / 4, WAITED_MS);
  const dies: Fault = { kind: 'client-crash', client: 'c2', atUs: Math.round(diesMs * 1_000) };
  const attempts = await plays(subject, [[first], [waiter], [last]], [dies]);
  if (useOf(attempts, 'c1') === undefined || useOf(attempts, 'c3') !== undefined) return null;
  const without = await plays(subject, [[first], [], [last]]);
  return useOf(without, 'c3') === undefined ? null : KEEPS_PLACE;
}

/** Waits to be told. */
const WAITS = /\bp?subscribe\b|\bb[lr]pop\b|\bblmove\b|\bxread/i;

/** Whether its waiters may wait for a message, by its text. */
export function hasMessages({ bench }: Subject): boolean {
  return bench.program.texts.some((it) => WAITS.test(it));
}

/** A call that waits for a limited time has returned by then, ms. */
const RETURNED_MS = 3_600_000;

/** Whether a waiter waits for ever where the holder has died. */
export async function waitsForDead(subject: Subject): Promise<Defect | null> {
  const { ttlMs } = subject;
  const [holder, waiter, last] = [use(10, ttlMs, 0.8 * ttlMs), use(ttlMs / 4, ttlMs, 1), use(RETURNED_MS, ttlMs, 1)];
  const dies: Fault = { kind: 'client-crash', client: 'c1', atUs: Math.round(ttlMs * 500) };
  const attempts = await plays(subject, [[holder], [waiter], [last]], [dies]);
  const waits = attempts.find(({ client }) => client === 'c2');
  const next = useOf(attempts, 'c3');
  // The next one may wake it.
  const isWoken = waits !== undefined && next !== undefined && !(waits.returnedMs < next.askedMs);
  if (!isWoken || useOf(attempts, 'c1') === undefined) return null;
  const without = await plays(subject, [[holder], [waiter], [last]]);
  if (useOf(without, 'c2') === undefined) return null;
  return { ...WAITS_FOR_MESSAGE, brings: ['hang', 'unavailable'], property: 'deadlock-free', isShown: true };
}
