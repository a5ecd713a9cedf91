import type { Fault, LockPlan } from '../scenarios/index.js';
import type { Direction, FateSlot, Message } from './message.js';
import type { SimLock } from './sim-lock.js';
import type { WorldView } from './view.js';

/** The moments at which an adversary may put faults into the future. */
export type DecisionPoint = 'start' | 'attempt' | 'claim';

/**
 * Makes every choice that is not the lock's: what clients do, what becomes of messages, which faults strike. There is
 * one engine; a written schedule, a random search and an explorer differ only in their adversary.
 */
export interface Adversary {
  /** The next acquisition of a client; asked at the start and whenever one ended, until it answers `null`. */
  nextLock(client: number, view: WorldView): LockPlan | null;
  /** Where in its range the pause after this attempt lies, ppm. */
  jitterPpm(client: number, lock: number, attempt: number): number;
  /**
   * Decides about a message that is being sent. `fate` comes in with the default (the cluster's delay, one copy);
   * `send` is the number by which a schedule addresses the message.
   */
  fate(message: Message, direction: Direction, send: number, fate: FateSlot, view: WorldView): void;
  /**
   * The next fault to put into the future; asked at every {@link DecisionPoint} until it answers `null`. Faults lie later than
   * now, or now with the edge `after`: the past is written.
   */
  nextFault(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null;
}
