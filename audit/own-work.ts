import { current, type ProcessContext } from '../libraries/runtime/owner.js';
import { calls } from './unknown.js';
import type { Trial } from './wire.js';

/**
 * Waits until a function that does work of its own has the lock: where nothing is left of what was granted, it has it only if it works.
 *
 * @param done - When it has ended.
 * @param isSpent - Whether nothing is left.
 * @returns Whether it got the lock before it ended.
 */
export async function getsLock(
  trial: Trial,
  process: ProcessContext,
  done: Promise<unknown>,
  isSpent: () => boolean,
): Promise<boolean> {
  while (await Promise.race([trial.granted.then(() => true), done.then(() => trial.isGranted)])) {
    if (!isSpent() || (await works(trial, process, done))) return true;
    trial.giveUp();
  }
  return false;
}

/** Whether it calls what it is handed, before it releases or ends. */
function works(trial: Trial, process: ProcessContext, done: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const hear = (): void => {
      if (current.owner === process) end(true);
    };
    const end = (isWorking: boolean): void => {
      calls.listeners.delete(hear);
      resolve(isWorking);
    };
    calls.listeners.add(hear);
    trial.onEnd = () => end(false);
    done.then(
      () => end(false),
      () => end(false),
    );
  });
}
