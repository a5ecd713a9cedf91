import type { Command, Token } from '../core/index.js';
import type { SimLock, SimNode } from '../sim/index.js';
import type { Meaning } from './redis/meaning.js';

/** A command that a library sends. */
export interface LibraryCommand extends Command {
  /** When it was sent, µs of true time. */
  readonly sentUs: number;
}

/** Commands, and what they are about. */
export interface Addressed {
  readonly lock: SimLock;
  readonly command: LibraryCommand;
  readonly said: string;
  readonly at: SimNode;
  /** What was done is answered by 0, or by nothing. */
  readonly isInverted: boolean;
  /** The client sends them by itself. */
  readonly isGreeting: boolean;
}

/** What a library sends, as observers of messages are told. */
export function libraryCommand({ operation, ttlMs }: Meaning, token: number, sentUs: number): LibraryCommand {
  return {
    operation,
    token: token as unknown as Token,
    ttlMs: Number.isFinite(ttlMs) ? ttlMs : 0,
    attempt: 0,
    round: 0,
    counter: 0,
    sentUs,
  };
}
