import type { LockPlan, Schedule } from '../scenarios/index.js';
import { isWork, nameOfCall } from './called.js';
import { type Attempt, calm, delayed, REST_MS, rehearse, use } from './rehearsal.js';
import type { Subject } from './subject.js';

/** Answers are late for so long, ms: longer than most programs wait for one. */
const LATE_MS: readonly number[] = [2_500, 12_000];
/** How often the other client asks meanwhile. */
const ASKS = 24;
/** How long before the answers come the client asks again, ms. */
const AGAIN_MS: readonly number[] = [400, 200, 100, 50, 20];
const FIRST_MS = 1_000;

/**
 * Whether a client that asks again while the answers to it are late takes one of them for that to a later command, and so has
 * the lock beside another: what was sent and given up is answered all the same.
 */
export async function mistakesAnswers({ bench, hosts, how, ttlMs, alone }: Subject): Promise<boolean> {
  if (how.nodes > 1 || how.admits > 1 || how.counts) return false;
  const { sent = [], connections } = alone.trial ?? {};
  // Each command has a connection of its own.
  if (sent.length > 1 && connections !== undefined && connections.size >= sent.length) return false;
  // Who leaves its key behind where it gives up may still be given another one.
  for (const [lateMs, key] of LATE_MS.flatMap((it) => [[it, 'a'] as const, [it, 'b'] as const])) {
    const attempts = await rehearse(bench, hosts, how, withLateAnswers(ttlMs, lateMs, key), { apart: true });
    const held = attempts.filter((it) => it.held !== null);
    const isBeside = (atMs: number): boolean =>
      held.some(
        ({ client, acquiredMs, releasedMs }) =>
          client === 'c2' && atMs > acquiredMs && atMs < Math.min(releasedMs, acquiredMs + ttlMs / 2),
      );
    const refused = attempts.filter((it) => it.client === 'c1' && it.trial?.isGranted === false);
    if (refused.some((it) => isBeside(it.acquiredMs) || (hasWorked(it, alone) && isBeside(it.returnedMs)))) return true;
  }
  return false;
}

/** Whether a function has called all that it calls as its own work when it has the lock. */
function hasWorked({ trial }: Attempt, alone: Attempt): boolean {
  const works = alone.trial?.works ?? [];
  const called = trial?.calls.map(nameOfCall) ?? [];
  return works.some(isWork) && works.every((it) => called.includes(nameOfCall(it)));
}

/** @param key - What it asks for shortly before the answers come, and the other client asks for. It has asked for `a` before. */
function withLateAnswers(ttlMs: number, lateMs: number, key: string): Schedule {
  const endMs = FIRST_MS + lateMs;
  const asks = (atMs: number, holdMs: number): LockPlan => ({ ...use(atMs, ttlMs, holdMs), resources: [key] });
  // It has connected before. It is granted the key, gives up, takes the key back if it does so, and asks again.
  const own = [...[10, FIRST_MS].map((atMs) => use(atMs, ttlMs, 1)), ...AGAIN_MS.map((it) => asks(endMs - it, 1))];
  const others = Array.from({ length: ASKS }, (_, i) => asks(FIRST_MS + 20 + (i * lateMs) / ASKS, ttlMs / 2));
  const schedule = calm(1, [own, others], (endMs + 4 * ttlMs + REST_MS) * 1000);
  return { ...schedule, faults: [delayed('n0', 'c1', FIRST_MS, lateMs)] };
}
