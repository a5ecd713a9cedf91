import { current } from '../libraries/runtime/owner.js';
import type { Defect } from './defect.js';
import { speaksOfFencing } from './fences.js';
import { nameOfPlan, type Plan } from './plan.js';
import { calm, REST_MS, rehearse, releasedIn, use } from './rehearsal.js';
import { isWork, type Subject } from './targeted.js';

import { signalsIn } from './untold.js';
import { seconds } from './words.js';

/** Of the time that a TTL lasts, what is later is over. */
const OVER = 1.02;

/**
 * Whether a function begins with a part of its work when its TTL has passed, where each part takes as long as the time limit that it is
 * given. What has none takes no time.
 */
export async function exceedsTtl(
  { bench, hosts, how }: Omit<Subject, 'alone' | 'ttlMs'>,
  plan: Plan,
): Promise<Defect | null> {
  if (speaksOfFencing(bench)) return null;
  const limits: (readonly AbortSignal[])[] = [];
  const late: { readonly name: string; readonly afterMs: number }[] = [];
  const heard = (given: readonly unknown[], name: string): void => {
    limits.push(isWork(name) ? given.flatMap(signalsIn) : []);
    const trial = current.owner === null ? null : bench.wire.trialOf(current.owner);
    if (trial?.isGranted !== true || trial.ttlMs === null || releasedIn(trial) || !isWork(name)) return;
    const afterMs = (current.owner?.wallMs() ?? Number.NaN) - trial.grantedMs;
    if (afterMs > OVER * trial.ttlMs) late.push({ name: name.replace(/^\./, ''), afterMs });
  };
  const takes = async (): Promise<void> => {
    const signals = limits.shift() ?? [];
    if (signals.length > 0) await aborted(AbortSignal.any([...signals]));
  };
  const schedule = calm(how.nodes, [[use(10, how.fixedTtlMs ?? 0, 1)]], 10 * REST_MS * 1000);
  const [attempt] = await rehearse(bench, hosts, how, schedule, { naturally: true, heard, takes, planOf: () => plan });
  const { trial } = attempt ?? {};
  const [first] = late;
  if (first === undefined || trial?.ttlMs == null || trial.sent.some(({ operation }) => operation === 'extend'))
    return null;
  return {
    id: 'work-outlasts-ttl',
    sentence: `the time limits of ${nameOfPlan(plan)} add up to more than its TTL: where each call takes as long as it may, it calls ${first.name} ${seconds(first.afterMs)} after it got the lock, and its key lives for ${seconds(trial.ttlMs)}`,
    fix: 'one time limit for all of the work, which is shorter than the TTL, or an extension while the work goes on',
    brings: [],
    property: 'mutual-exclusion',
    isShown: true,
  };
}

/** Rejects when a signal aborts. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}
