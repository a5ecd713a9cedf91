import type { LockPlan } from '../scenarios/index.js';
import {
  getsInBeside,
  isDoneByEach,
  leavesOne,
  releasesOther,
  usesBeside,
  worksBeside,
  worksUnasked,
} from './calls-at-once.js';
import type { Defect } from './defect.js';
import type { Plan } from './plan.js';
import { CALL_TTL_MS, CONNECTED_MS, type Played } from './played.js';
import { calm, REST_MS, rehearse, releasedIn, use } from './rehearsal.js';
import {
  LETS_CALLS_IN,
  RELEASES_REFUSED,
  SHARES_TOKEN,
  SHARES_TOKEN_OF_THINGS,
  valueOfProcess,
} from './shown-defects.js';
import type { Runnable } from './subject.js';
import { keptLate } from './targeted.js';

/** Calls of one function by two processes, at these times. */
export interface TwoProcesses {
  /** TTL of its key. */
  readonly ttlMs: number;
  /** Parts of its work, at least 1. */
  readonly parts: number;
  /**
   * @param workMs - What each part of its work takes. Default: half a TTL.
   * @param apart - What calls of one process do is told apart. Default: no.
   */
  readonly plays: (
    own: readonly number[],
    other: readonly number[],
    workMs?: number,
    apart?: boolean,
  ) => Promise<Played>;
  /** Calls of one process about two things, the second while the first is under way. */
  readonly ofTwoThings: () => Promise<Played>;
}

/** Makes two processes call a function; `null` where it has no lock with a TTL. */
export async function twoProcesses({ bench, hosts, how }: Runnable, plan: Plan): Promise<TwoProcesses | null> {
  const run = (
    uses: readonly (readonly LockPlan[])[],
    ttlMs: number,
    workMs: number,
    apart: boolean,
  ): Promise<Played> => {
    const takes = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, workMs));
    const schedule = calm(1, uses, (6 * ttlMs + REST_MS) * 1000);
    return rehearse(bench, hosts, how, schedule, { naturally: true, takes, apart, planOf: () => plan });
  };
  const playing =
    (ttlMs: number): TwoProcesses['plays'] =>
    (own, other, workMs = ttlMs / 2, apart = false) => {
      const uses = [own, other].map((all) => all.map((atMs) => use(atMs, ttlMs, 1))).filter((it) => it.length > 0);
      return run(uses, ttlMs, workMs, apart);
    };
  const [alone] = await playing(how.fixedTtlMs ?? CALL_TTL_MS)([10], []);
  const ttlMs = alone?.trial?.ttlMs ?? null;
  const parts = Math.max(1, alone?.trial?.calls.length ?? 0);
  if (ttlMs === null || alone?.trial?.isGranted !== true) return null;
  const things = [use(10, ttlMs, 1), { ...use(10 + ttlMs / 8, ttlMs, 1), resources: ['b'] }];
  const ofTwoThings = (): Promise<Played> => run([things], ttlMs, ttlMs / (3 * parts), false);
  return { ttlMs, parts, plays: playing(ttlMs), ofTwoThings };
}

/** What is wrong where two calls of a function meet. */
export async function ofTwoCalls({ ttlMs, parts, plays, ofTwoThings }: TwoProcesses): Promise<Defect | null> {
  const both = await plays([10, 10 + ttlMs / 8], [10 + ttlMs / 4]);
  const [first, second] = both.filter((it) => it?.client === 'c1');
  // A refused call deletes the key of the other call of its process, and a second process gets in.
  const isRefused = second?.trial?.isGranted === false;
  const getsIn = (attempts: Played): boolean => {
    const other = attempts.find((it) => it?.client === 'c2')?.trial;
    const [holder] = attempts;
    const endMs = Math.min(holder?.leftMs ?? 0, (holder?.trial?.grantedMs ?? 0) + 0.9 * ttlMs);
    return holder?.trial?.isGranted === true && other?.isGranted === true && other.grantedMs < endMs;
  };
  if (isRefused && getsIn(both) && !getsIn(await plays([10], [10 + ttlMs / 4]))) return RELEASES_REFUSED;
  if (releasesOther(first, second)) return SHARES_TOKEN;
  if (first?.trial?.isGranted === true && releasedIn(first.trial) && leavesOne(await ofTwoThings()))
    return SHARES_TOKEN_OF_THINGS;
  const isExtended = both.some((it) => it?.trial?.sent.some(({ operation }) => operation === 'extend'));
  const late = keptLate(await plays([10], [100], isExtended ? 4 * ttlMs : 0.9 * ttlMs), ttlMs);
  // What goes on until it is told to stop is begun once in a process.
  if (late !== null || first?.trial?.loops === true) return late;
  // What one call does again where it has failed is not that of another.
  if (worksBeside(first, second, ttlMs / 2) && isDoneByEach(both, await plays([10], []))) {
    // Readers, and what admits several, let those of other processes in, too.
    const [one, another] = await plays([10], [10 + ttlMs / 8]);
    return worksBeside(one, another, ttlMs / 2) ? null : LETS_CALLS_IN;
  }
  const times = [CONNECTED_MS, CONNECTED_MS + 0.5] as const;
  if (worksUnasked(await plays([times[0], times[0] + ttlMs / 8], [], undefined, true))) return LETS_CALLS_IN;
  const atOnce = await plays(times, [], undefined, true);
  if (usesBeside(atOnce) && !usesBeside(await plays([times[0]], [times[1]]))) return LETS_CALLS_IN;
  const value = first?.trial?.value ?? '';
  if (value !== '' && value === second?.trial?.value) {
    const overdue = await plays([10, 10 + 1.1 * ttlMs], [10 + 1.6 * ttlMs], (1.5 * ttlMs) / parts);
    if (getsInBeside(overdue)) return valueOfProcess(value);
  }
  return null;
}
