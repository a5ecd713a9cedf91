import { EPOCH_MS } from '../libraries/library-host.js';
import type { LockFactory } from '../libraries/lock-factory.js';
import { replayLibraries } from '../libraries/run.js';
import { current } from '../libraries/runtime/owner.js';
import { kindOf, type ViolationKind } from '../libraries/search/kinds.js';
import type { Schedule } from '../scenarios/index.js';
import { isWork } from './called.js';
import type { Understood } from './plan.js';
import { calls } from './unknown.js';

/** Failures that come of a process that takes itself for the leader. */
const OF_BELIEF: readonly ViolationKind[] = ['belief', 'state', 'continuity', 'margin'];

/** A run in which a lock failed so. */
interface FailedRun {
  readonly kind: ViolationKind;
  readonly schedule: Schedule;
  readonly extending: boolean;
  readonly subject: LockFactory;
}

/**
 * Whether a failure is one of what a leader keeps for itself alone: no caller can ask who leads, and of two that both keep that they lead
 * one does no work while they do.
 */
export async function isKeptAlone(
  { campaigns, sign }: Understood,
  { subject, schedule, kind, extending }: FailedRun,
): Promise<boolean> {
  if (!OF_BELIEF.includes(kind) || !campaigns || sign?.isKept !== true) return false;
  const worked: [string, number][] = [];
  const hear = (name: string): void => {
    const { owner } = current;
    if (owner !== null && isWork(name)) worked.push([owner.name, (owner.wallMs() - EPOCH_MS) * 1000]);
  };
  calls.listeners.add(hear);
  try {
    const { violations } = await replayLibraries(subject, schedule, { extendsItself: extending });
    const shown = violations.find((it) => kindOf(it) === kind);
    if (shown === undefined || worked.length === 0) return false;
    const { atUs, untilUs, clients } = shown;
    const isBetween = (us: number): boolean => us >= atUs && us <= (untilUs ?? Number.POSITIVE_INFINITY);
    return !clients.every((name) => worked.some(([by, us]) => by === name && isBetween(us)));
  } finally {
    calls.listeners.delete(hear);
  }
}
