import { current } from '../libraries/runtime/owner.js';
import { nodeName } from '../sim/index.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';

/** What a function did of its own work after its first step. */
interface Went {
  readonly attempts: readonly Attempt[];
  /** What it began after that. */
  readonly later: number;
  /** A part of its work was told to stop. */
  readonly isTold: boolean;
}

/** The first step of the work takes so many TTLs. */
const STEP_TTLS = 3;

/**
 * Whether a function that extends its lock while it works goes on with the next steps of its work when it has learnt that the
 * lock is lost, as it would with the lock. Its steps are what it awaits of what it was handed.
 */
export async function goesOnUntold(bench: Bench, hosts: Hosts, how: Understood): Promise<boolean> {
  const ttlMs = how.fixedTtlMs;
  if (how.plan.use !== 'handler' || !how.releases || ttlMs === null) return false;
  const kept = await worked(bench, hosts, how, ttlMs, false);
  const [own] = kept.attempts;
  const isExtended = own?.trial?.sent.some(
    ({ operation, key, atMs }) =>
      operation === 'extend' && key === own.trial?.key && atMs > own.trial.grantedMs + ttlMs / 20,
  );
  if (!isExtended || kept.later === 0 || own?.releaseError !== null) return false;
  const lost = await worked(bench, hosts, how, ttlMs, true);
  const [first, other] = lost.attempts;
  const isLost = first?.held != null && other?.held != null && other.acquiredMs < first.acquiredMs + STEP_TTLS * ttlMs;
  return isLost && first.releaseError === null && !lost.isTold && lost.later === kept.later;
}

async function worked(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number, isCut: boolean): Promise<Went> {
  const schedule = calm(
    how.nodes,
    [[use(10, ttlMs, 1)], ...(isCut ? [[use(1.6 * ttlMs, ttlMs, 1)]] : [])],
    (8 * ttlMs + REST_MS) * 1000,
  );
  const nodes = Array.from({ length: how.nodes }, (_, i) => nodeName(i));
  const cut = {
    kind: 'partition',
    from: ['c1'],
    to: nodes,
    oneWay: false,
    holds: true,
    atUs: Math.round(300 * ttlMs),
    forUs: Math.round(1_500 * ttlMs),
  } as const;
  let [isBegun, isDone, later] = [false, false, 0];
  const signals = new Set<AbortSignal>();
  const isWorking = (): boolean => {
    const { owner } = current;
    return owner?.name === 'c1' && bench.wire.trialOf(owner)?.isGranted === true;
  };
  const takes = async (): Promise<void> => {
    if (isBegun || !isWorking()) return;
    isBegun = true;
    await new Promise((resolve) => setTimeout(resolve, STEP_TTLS * ttlMs));
    isDone = true;
  };
  const heard = (given: readonly unknown[]): void => {
    if (!isWorking()) return;
    if (isDone) later++;
    for (const it of given) for (const signal of signalsIn(it)) signals.add(signal);
  };
  const faults = isCut ? [cut] : [];
  const ways = { naturally: true, heard, takes, elements: 2 };
  const attempts = await rehearse(bench, hosts, how, { ...schedule, faults }, ways);
  return { attempts, later, isTold: [...signals].some(({ aborted }) => aborted) };
}

function signalsIn(given: unknown): AbortSignal[] {
  const own: unknown = typeof given === 'object' && given !== null ? Reflect.get(given, 'signal') : null;
  return [given, own].filter((it) => it instanceof AbortSignal);
}
