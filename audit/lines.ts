import type { Defect } from './defect.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';
import type { Subject } from './subject.js';

/* Locks whose waiters stand in a line: a list, or a sorted set. */

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

/** Whether nobody gets the lock any longer when a process has died that waited for it. */
export async function keepsPlace({ bench, hosts, how, ttlMs }: Subject): Promise<Defect | null> {
  const last = async (waiter: boolean): Promise<Attempt | undefined> => {
    const clients = [[use(10, ttlMs, 0.8 * ttlMs)], waiter ? [use(ttlMs / 4, ttlMs, 1)] : [], [use(LONG_MS, ttlMs, 1)]];
    const schedule = calm(how.nodes, clients, (LONG_MS + 4 * ttlMs + 2 * REST_MS) * 1000);
    const faults = waiter ? [{ kind: 'client-crash', client: 'c2', atUs: Math.round(ttlMs * 500) } as const] : [];
    const attempts = await rehearse(bench, hosts, how, { ...schedule, faults });
    const [first, , third] = ['c1', 'c2', 'c3'].map((name) => attempts.find(({ client }) => client === name));
    return first?.held == null ? undefined : third;
  };
  const [after, alone] = [await last(true), await last(false)];
  if (after === undefined || alone?.held == null) return null;
  return after.held === null && (after.trial?.sent.length ?? 0) > 1 ? KEEPS_PLACE : null;
}
