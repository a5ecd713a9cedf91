import { current, type ProcessContext } from '../libraries/runtime/owner.js';
import type { Trial } from './trial.js';
import { calls } from './unknown.js';

/**
 * Waits until a function that does work of its own has the lock: where what was granted may not be enough, it has it only if it works.
 *
 * @param done - When it has ended.
 * @param isUncertain - Whether that may not be enough: nothing is left of it, or its client may not have waited for all answers.
 * @param counts - Whether it works if it calls what has this name. Default: always.
 * @returns Whether it got the lock before it ended.
 */
export async function getsLock(
  trial: Trial,
  process: ProcessContext,
  done: Promise<unknown>,
  isUncertain: () => boolean,
  counts: (name: string) => boolean = () => true,
): Promise<boolean> {
  while (await Promise.race([trial.granted.then(() => true), done.then(() => trial.isGranted)])) {
    if (!isUncertain() || (await works(trial, process, done, counts))) return true;
    trial.giveUp();
  }
  return false;
}

/** Whether it calls what it is handed, before it releases or ends. */
function works(
  trial: Trial,
  process: ProcessContext,
  done: Promise<unknown>,
  counts: (name: string) => boolean,
): Promise<boolean> {
  // What it has sent at once may be kept back: the last of the answers that it has waited for came too late.
  if (!Number.isNaN(trial.endedMs)) return Promise.resolve(false);
  return new Promise((resolve) => {
    const hear = (name: string): void => {
      if (current.owner === process && counts(name)) end(true);
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

/** A function that goes on until it is told to stop is told this long after its work could be over, ms of simulated time. */
const STOPPED_AFTER_MS = 1_000;

/** Waits until a function has ended. One that ends by itself is not told to. */
export function stopped(done: Promise<unknown>, stop: AbortController): Promise<unknown> {
  const timer = setTimeout(() => stop.abort(), STOPPED_AFTER_MS);
  return done.finally(() => clearTimeout(timer));
}

/** A loop that looks at its signal so often goes on until that aborts. */
const MOST_LOOKS = 500;

/** The signal of a call that nobody stops. A loop that nothing else ends would go on for the whole run. */
export function endingSignal(): AbortSignal {
  const stop = new AbortController();
  const { signal } = stop;
  let looks = 0;
  Object.defineProperty(signal, 'aborted', {
    get: () => {
      looks++;
      if (looks === MOST_LOOKS) stop.abort();
      return looks >= MOST_LOOKS;
    },
  });
  return signal;
}
