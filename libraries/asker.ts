import type { SimLock } from '../sim/index.js';
import type { Meaning } from './redis/meaning.js';
import type { Session } from './session.js';

/** It was asked for, and its process waits for it. */
function isAsking({ gone, state }: SimLock): boolean {
  return !gone && state.phase === 'acquiring';
}

/** The same, or it is held. */
export function isOpen(lock: SimLock): boolean {
  return isAsking(lock) || (!lock.gone && lock.state.phase === 'held');
}

/** The acquisitions of a process. */
interface Asked {
  readonly locks: readonly SimLock[];
  /** Of which the call has not returned. */
  readonly asking: SimLock | null;
  /** Asked for last. */
  readonly task: SimLock | null;
}

/** For which of a process's locks a command is whose value does not say so. Where that is a guess, the session notes it. */
export function askerOf(
  { operation, keys }: Meaning,
  { locks, asking, task }: Asked,
  session: Session,
): SimLock | null {
  if (task === null || !session.overlapping.has(task.client.name)) return task;
  const isAcquired = operation === 'acquire';
  if (isAcquired && asking !== null) return asking;
  const open = locks.filter(isAcquired ? isAsking : isOpen);
  const [key = ''] = keys;
  const own = open.filter((lock) => session.isKeyOf(key, lock));
  const [only, ...others] = own.length > 0 ? own : isAcquired ? open : [];
  if (only !== undefined && others.length === 0) return only;
  if (isAcquired) session.guessed.add(task.client.name);
  return task;
}
