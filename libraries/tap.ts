import type { Answer } from '../core/index.js';
import type { Meaning } from './redis/meaning.js';
import type { ProcessContext } from './runtime/owner.js';

/** Who asks a node. */
export interface Asked {
  readonly process: ProcessContext;
  /** The acquisition that it is for; `null` before there is any. */
  readonly lock: object | null;
  /** The index of the node. */
  readonly node: number;
}

/** Commands that a simulated process sends to one node at once. */
export interface SentCommands extends Asked {
  readonly commands: readonly (readonly string[])[];
  readonly meaning: Meaning;
}

/** Listens to what the processes of a lock under test send over their own connections, and may delay it. */
export interface Tap {
  /** Whether a command that sets a key is about another one than that of the lock. Default: none is. */
  isAside?(words: readonly string[], meaning: Meaning, process: ProcessContext): boolean;
  /** Whether acquisitions offer a value of their own each: one that is offered again is then sent late, or once more. */
  readonly valuesDiffer: boolean;
  /** A process sets a timer. */
  timer?(process: ProcessContext, delayMs: number): void;
  /** Commands leave a process. */
  sent(sent: SentCommands): void;
  /** A process is about to read an answer. */
  answered(asked: Asked, operation: Meaning['operation'], answer: Answer): void;
  /**
   * Whether commands are kept back, as if the process had not come to them yet; `send` sends them later.
   *
   * @param connection - Later commands of one connection do not overtake earlier ones.
   */
  keeps(
    process: ProcessContext,
    connection: object,
    commands: readonly (readonly string[])[],
    send: () => void,
  ): boolean;
}
