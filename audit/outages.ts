import type { Fault, LockPlan, Schedule } from '../scenarios/index.js';
import { isWork } from './called.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';
import type { Said } from './said.js';

/** An acquisition while no majority of so many nodes grants it: they are dead, or answer with errors. */
interface Unreached {
  readonly attempt: Attempt;
  readonly nodes: number;
  readonly trouble: 'dead' | 'refuses';
}

/** Where nothing grants it, in words. */
export function troubleOf({ attempt, trouble }: Unreached): string {
  const isAsked = attempt.trial?.sent.some(({ operation }) => operation === 'acquire') ?? false;
  if (!isAsked) return 'it has no connection to Redis: nothing asks for the key';
  return trouble === 'dead'
    ? 'Redis cannot be reached or a command fails'
    : 'Redis answers with an error reply (as -LOADING or -READONLY), which it takes for a key that it has acquired';
}

/** What is seen of a lock while nodes are dead. */
export interface InOutages {
  /** No majority of so many nodes was there; `null` where it did not come to that. */
  readonly unreached: Unreached | null;
  /** It goes on as the holder where a minority of its nodes extends its key, and not where none does. */
  readonly extendsByFew: boolean;
  /** It went on to extend its key for long after a release that had failed. */
  readonly extendsOn: boolean;
  /** It goes on as the holder when it was told that its key has gone, and another has it. */
  readonly extendsLost: boolean;
  /** It was extended when its key had expired, and that has set the key again. */
  readonly revives: boolean;
  /** The same after a pause, though another process had the lock by then. */
  readonly takesBack: boolean;
}

/** Uses a lock while nodes die. */
export async function inOutages(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<InOutages> {
  const plays = (schedule: Schedule): Promise<Attempt[]> => rehearse(bench, hosts, how, schedule);
  let unreached: InOutages['unreached'] = null;
  // Half of an even number is where a majority is counted wrongly.
  for (const nodes of how.isOpen && how.nodes > 3 ? [how.nodes, how.nodes - 1] : [how.nodes]) {
    for (const trouble of nodes === 1 ? (['dead', 'refuses'] as const) : (['dead'] as const)) {
      const [, attempt] = await plays(withoutNodes(nodes, ttlMs, trouble));
      const goesOn = attempt?.held != null || (attempt?.trial?.calls.some(isWork) ?? false);
      if (attempt !== undefined && (unreached === null || goesOn)) unreached = { attempt, nodes, trouble };
      if (goesOn) break;
    }
  }
  const believes = async (dead: number): Promise<boolean> => {
    const [attempt] = await plays(withDying(how, dead, ttlMs));
    return attempt?.believes ?? true;
  };
  const goesOn = async (schedule: Schedule): Promise<boolean> => {
    const [attempt] = await plays(schedule);
    return attempt !== undefined && isExtendedOn(attempt, ttlMs, schedule);
  };
  const extendsByFew = how.nodes > 1 && !(await believes(how.nodes)) && (await believes(Math.floor(how.nodes / 2) + 1));
  const extendsOn =
    how.renews &&
    ((await goesOn(withoutRelease(how.nodes, ttlMs))) || (await goesOn(refusingRelease(how.nodes, ttlMs))));
  const [lost, other] = how.plan.use === 'pair' && !how.renews ? await plays(whereLost(how.nodes, ttlMs)) : [];
  const [late] =
    how.renews || how.nodes > 1 ? [] : await plays(calm(1, [[lateUse(ttlMs)]], (5 * ttlMs + REST_MS) * 1000));
  const [paused, next] = how.renews && how.nodes === 1 ? await plays(wherePaused(ttlMs)) : [];
  const takesBack = paused?.trial?.isRevived === true && paused.believes && next?.held != null;
  const extendsLost = lost !== undefined && other?.held != null && isAsked(lost, ttlMs) && lost.believes;
  return {
    unreached,
    extendsByFew,
    extendsLost,
    revives: late?.trial?.isRevived ?? false,
    takesBack,
    extendsOn,
  };
}

/**
 * So many nodes die that no majority is left, or answer with errors to what asks for the lock, while a client has nothing to do, which
 * then asks again.
 */
function withoutNodes(nodes: number, ttlMs: number, trouble: Unreached['trouble']): Schedule {
  const again = 2 * ttlMs + 10_000;
  const schedule = calm(nodes, [[use(10, ttlMs, 100), use(again, ttlMs, 100)]], (again + ttlMs + 2 * REST_MS) * 1000);
  const atUs = again * 1000 - 1_000_000;
  const fails = (_: unknown, i: number): Fault =>
    trouble === 'dead'
      ? { kind: 'crash', node: `n${i}`, atUs, restartAfterUs: null }
      : {
          kind: 'error-replies',
          node: `n${i}`,
          atUs,
          forUs: schedule.untilUs,
          operations: ['acquire', 'extend', 'release'],
        };
  return { ...schedule, faults: Array.from({ length: Math.ceil(nodes / 2) }, fails) };
}

/** So many nodes die for good while a lock is held for three TTLs; for one and a half if that does not extend itself. */
function withDying({ nodes, renews }: Understood, dead: number, ttlMs: number): Schedule {
  const extended = { ...use(10, ttlMs, 1.4 * ttlMs), extensions: [{ afterUs: Math.round(700 * ttlMs), ttlMs }] };
  const schedule = calm(nodes, [[renews ? use(10, ttlMs, 3 * ttlMs) : extended]], (8 * ttlMs + REST_MS) * 1000);
  const die = (_: unknown, i: number): Fault => ({
    kind: 'crash',
    node: `n${i}`,
    atUs: Math.round(ttlMs * 500),
    restartAfterUs: null,
  });
  return { ...schedule, faults: Array.from({ length: dead }, die) };
}

/** It is extended when its key has expired. */
function lateUse(ttlMs: number): LockPlan {
  return { ...use(10, ttlMs, 1.6 * ttlMs), extensions: [{ afterUs: Math.round(1_300 * ttlMs), ttlMs }] };
}

/** The process of a lock that extends itself is paused until its key has expired and another process has the lock. */
function wherePaused(ttlMs: number): Schedule {
  const uses = [[use(10, ttlMs, 3 * ttlMs)], [use(1.2 * ttlMs, ttlMs, 1.5 * ttlMs)]];
  const schedule = calm(1, uses, (6 * ttlMs + REST_MS) * 1000);
  const pause: Fault = {
    kind: 'pause',
    process: 'c1',
    atUs: Math.round(ttlMs * 500),
    forUs: Math.round(ttlMs * 1_500),
  };
  return { ...schedule, faults: [pause] };
}

/** A lock is extended when its key has expired, and another process has it. */
function whereLost(nodes: number, ttlMs: number): Schedule {
  return calm(nodes, [[lateUse(ttlMs)], [use(1.1 * ttlMs, ttlMs, 0.8 * ttlMs)]], (4 * ttlMs + REST_MS) * 1000);
}

/** Whether a lock was extended after its TTL. */
function isAsked({ trial }: Attempt, ttlMs: number): boolean {
  const isLate = ({ operation, key, atMs }: Said): boolean =>
    operation === 'extend' && key === trial?.key && atMs > Number(trial?.grantedMs) + ttlMs;
  return trial?.sent.some(isLate) ?? false;
}

/** All nodes are dead for so long when a lock is released that no client tries again, ms. */
const DEAD_MS = 40_000;

function withoutRelease(nodes: number, ttlMs: number): Schedule {
  const holdMs = ttlMs / 2;
  const schedule = calm(nodes, [[use(10, ttlMs, holdMs)]], (DEAD_MS + 8 * ttlMs + REST_MS) * 1000);
  const die = (_: unknown, i: number): Fault => ({
    kind: 'crash',
    node: `n${i}`,
    atUs: Math.round(holdMs * 1000),
    restartAfterUs: DEAD_MS * 1000,
  });
  return { ...schedule, faults: Array.from({ length: nodes }, die) };
}

/** All nodes answer the release of a lock with errors, for less than its TTL. */
function refusingRelease(nodes: number, ttlMs: number): Schedule {
  const holdMs = ttlMs / 2;
  const schedule = calm(nodes, [[use(10, ttlMs, holdMs)]], (8 * ttlMs + REST_MS) * 1000);
  const refuses = (_: unknown, i: number): Fault => ({
    kind: 'error-replies',
    node: `n${i}`,
    atUs: Math.round(holdMs * 500),
    forUs: Math.round(ttlMs * 750),
    operations: ['release'],
  });
  return { ...schedule, faults: Array.from({ length: nodes }, refuses) };
}

function isExtendedOn({ trial, releasedMs, releaseError }: Attempt, ttlMs: number, { faults }: Schedule): boolean {
  const isDead = faults.some(({ kind }) => kind === 'crash');
  const longAfter = releasedMs + (isDead ? DEAD_MS + 5_000 : 0) + 2 * ttlMs;
  const isExtension = (it: Said): boolean => it.operation === 'extend' && it.key === trial?.key && it.atMs > longAfter;
  return releaseError !== null && (trial?.sent.some(isExtension) ?? false);
}
