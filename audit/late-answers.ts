import type { Schedule } from '../scenarios/index.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, delayed, REST_MS, rehearse, use } from './rehearsal.js';

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
export async function mistakesAnswers(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<boolean> {
  if (how.nodes > 1 || how.admits > 1 || how.counts) return false;
  for (const lateMs of LATE_MS) {
    const attempts = await rehearse(bench, hosts, how, withLateAnswers(ttlMs, lateMs));
    const held = attempts.filter((it) => it.held !== null);
    const isBeside = (own: Attempt): boolean =>
      held.some(
        ({ client, acquiredMs, releasedMs }) =>
          client === 'c2' &&
          own.acquiredMs > acquiredMs &&
          own.acquiredMs < Math.min(releasedMs, acquiredMs + ttlMs / 2),
      );
    if (held.some((it) => it.client === 'c1' && it.trial?.isGranted === false && isBeside(it))) return true;
  }
  return false;
}

function withLateAnswers(ttlMs: number, lateMs: number): Schedule {
  const endMs = FIRST_MS + lateMs;
  // It has connected before. It is granted the key, gives up, takes the key back, and asks again shortly before the answers come.
  const own = [10, FIRST_MS, ...AGAIN_MS.map((it) => endMs - it)].map((atMs) => use(atMs, ttlMs, 1));
  const others = Array.from({ length: ASKS }, (_, i) => use(FIRST_MS + 20 + (i * lateMs) / ASKS, ttlMs, ttlMs / 2));
  const schedule = calm(1, [own, others], (endMs + 4 * ttlMs + REST_MS) * 1000);
  return { ...schedule, faults: [delayed('n0', 'c1', FIRST_MS, lateMs)] };
}
