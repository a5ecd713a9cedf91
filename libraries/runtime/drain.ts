import { natives } from './natives.js';
import { current } from './owner.js';

/**
 * Does the next piece of work, synchronously, and leaves the owner of what follows from it in place: continuations are
 * run before the next turn. Says whether there was any.
 */
type Turn = () => boolean;

/** Immediates that are queued at once run without anything else between them, and so nobody else meets an owner. */
const BATCH = 256;

/**
 * Takes turns until there are none. Between two turns Node runs all ticks and microtasks, to the fixpoint, because each
 * turn is an immediate of its own: nothing but documented behaviour.
 */
export function drainByImmediates(turn: Turn): Promise<void> {
  return new Promise((resolve, reject) => {
    let over = false;
    const one = (): void => {
      current.owner = null;
      if (over) return;
      try {
        if (turn()) return;
        over = true;
        resolve();
      } catch (error) {
        over = true;
        current.owner = null;
        reject(error);
      }
    };
    const batch = (): void => {
      current.owner = null;
      if (over) return;
      for (let i = 0; i < BATCH; i++) natives.setImmediate(one);
      natives.setImmediate(batch);
    };
    natives.setImmediate(batch);
  });
}

/** Not documented by Node. */
interface Undocumented {
  /** Runs all ticks and microtasks. */
  readonly _tickCallback?: () => void;
  /** Tells who listens of an error that nobody has caught, and ends what was under way when it was thrown. */
  readonly _fatalException?: (error: unknown) => boolean;
}

const { _tickCallback: tickCallback, _fatalException: fatalException } = process as unknown as Undocumented;

/** Turns between two looks whether draining still works. */
const CANARY_EVERY = 4096;

/** A canary: whether a continuation three promises deep, and a tick behind it, have run when the drain returns. */
function drains(tick: () => void): boolean {
  let sung = false;
  Promise.resolve()
    .then(() => Promise.resolve())
    .then(() => process.nextTick(() => Promise.resolve().then(() => (sung = true))));
  tick();
  return sung;
}

/**
 * Runs all of them, whatever one throws: what nobody catches goes where Node has it go. A tick that throws stays on Node's
 * stack of what is under way; where that is not emptied, Node takes it for damaged and ends the process.
 */
function tickOn(tick: () => void): void {
  for (;;) {
    try {
      tick();
      return;
    } catch (error) {
      if (fatalException === undefined || process.listenerCount('uncaughtException') === 0) throw error;
      fatalException(error);
    }
  }
}

/**
 * The same at once, several times as fast, by what Node does not document. From inside a microtask it would do nothing:
 * a canary tells, and then this throws. Callers compare it with {@link drainByImmediates}.
 */
export function drainAtOnce(turn: Turn): void {
  const tick = tickCallback;
  if (tick === undefined) throw new Error('this Node has no process._tickCallback');
  try {
    for (let turns = 0; ; turns++) {
      current.owner = null;
      if (turns % CANARY_EVERY === 0 && !drains(tick)) {
        throw new Error('continuations do not run here: the fast drain has to be called from a macrotask');
      }
      if (!turn()) return;
      tickOn(tick);
    }
  } finally {
    current.owner = null;
  }
}

/** Calls `work` from a macrotask, where {@link drainAtOnce} works. */
export function inMacrotask<T>(work: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    natives.setImmediate(() => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    });
  });
}
