import { current } from '../libraries/runtime/owner.js';
import type { Defect } from './defect.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Plan, Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, releasedIn, use } from './rehearsal.js';
import { RELEASES_BESIDE } from './shown-defects.js';
import { signalsIn } from './untold.js';

/** What a part of the work takes, and what one takes that goes on where another has failed, ms. */
const PART_MS = 50;
const LONG_MS = 400;

/** A part of the work: something that is awaited of what a function was handed. */
interface Part {
  readonly fromMs: number;
  toMs: number;
  /** The lock was still held when it ended. */
  isCovered: boolean;
}

/** The parts of the work of one call, in their order. */
interface Worked {
  readonly attempt: Attempt | undefined;
  readonly parts: readonly Part[];
  /** As a part failed, others were told to stop. */
  readonly isTold: boolean;
}

/**
 * Whether a function that does parts of its work at once releases its lock when one of them fails, while others go on. Without a failure
 * it awaits them all.
 */
export async function releasesBeside(
  subject: { readonly bench: Bench; readonly hosts: Hosts; readonly how: Understood },
  plan: Plan,
): Promise<Defect | null> {
  const { attempt, parts } = await worked(subject, plan, null);
  if (attempt?.held == null || attempt.releaseError !== null || attempt.trial?.isGranted !== true) return null;
  const failing = parts.findIndex((it, i) => parts.slice(i + 1).some(({ fromMs }) => fromMs < it.toMs));
  if (failing < 0 || !parts.every(({ isCovered }) => isCovered)) return null;
  const failed = await worked(subject, plan, failing);
  const isLeft = failed.parts.some(({ isCovered }, i) => i !== failing && !isCovered);
  return isLeft && !failed.isTold ? RELEASES_BESIDE : null;
}

/** @param failing - The part that fails; `null` where none does. */
async function worked(
  { bench, hosts, how }: { readonly bench: Bench; readonly hosts: Hosts; readonly how: Understood },
  plan: Plan,
  failing: number | null,
): Promise<Worked> {
  const parts: Part[] = [];
  const signals = new Set<AbortSignal>();
  let isTold = false;
  const isHeld = (): boolean => {
    const trial = current.owner === null ? null : bench.wire.trialOf(current.owner);
    return trial?.isGranted === true && !releasedIn(trial);
  };
  const takes = async (): Promise<void> => {
    if (!isHeld()) return;
    const nowMs = (): number => current.owner?.wallMs() ?? Number.NaN;
    const at = parts.push({ fromMs: nowMs(), toMs: Number.POSITIVE_INFINITY, isCovered: false }) - 1;
    const part = parts[at] as Part;
    const isLong = failing !== null && at > failing;
    await new Promise((resolve) => setTimeout(resolve, isLong ? LONG_MS : PART_MS));
    part.toMs = nowMs();
    part.isCovered = isHeld();
    if (isLong) isTold ||= [...signals].some(({ aborted }) => aborted);
    if (at === failing) throw new Error('it failed');
  };
  const heard = (given: readonly unknown[]): void => {
    for (const it of given) for (const signal of signalsIn(it)) signals.add(signal);
  };
  const ttlMs = how.fixedTtlMs ?? 0;
  const schedule = calm(how.nodes, [[use(10, ttlMs, 1)]], (4 * ttlMs + REST_MS) * 1000);
  const ways = { naturally: true, takes, heard, elements: 2, planOf: () => plan };
  const [attempt] = await rehearse(bench, hosts, how, schedule, ways);
  return { attempt, parts, isTold };
}
