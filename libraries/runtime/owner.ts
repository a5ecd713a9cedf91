import { ofThread } from './thread.js';

/** A timer of a simulated process. */
export interface OwnedTimer {
  readonly id: number;
  cancel(): void;
}

/** A simulated process, as the dispatchers see it: whose clocks, timers and randomness library code gets. */
export interface ProcessContext {
  /** In a word, for messages: `c1`. */
  readonly name: string;
  /** The acquisition that it was asked for last. */
  readonly task?: object | null;
  /** What `process.pid` shows. */
  readonly pid: number;
  /** What `Date.now()` shows: its wall clock, whole ms since the epoch. */
  wallMs(): number;
  /** What `process.hrtime` shows: its monotonic clock, whole µs since it began. */
  monotonicUs(): number;
  /** What `os.uptime()` shows: its time since boot, suspends included, whole µs. */
  bootUs(): number;
  /** Has `callback` called in `delayMs` of its monotonic clock, again and again if `repeat`. */
  setTimer(callback: () => void, delayMs: number, repeat: boolean): OwnedTimer;
  timerOf(id: number): OwnedTimer | undefined;
  /** Has `callback` called in this instant, when what is under way is done. */
  setImmediate(callback: () => void): OwnedTimer;
  /** What `Math.random()` gives: from 0 on, below 1. */
  random(): number;
  /** 32 random bits, for tokens. */
  randomWord(): number;
  /** It does what it cannot do here, in words that follow its name: gives what to throw. */
  refuses(what: string): Error;
}

/**
 * Who owns the event that is being delivered. One cell for the whole thread, whatever loads this module twice: the
 * dispatchers are installed once.
 */
interface OwnerCell {
  owner: ProcessContext | null;
}

/** Its `owner` is `null` outside of simulated processes. */
export const current: OwnerCell = ofThread('owner', () => ({ owner: null }));

/** Runs `work` as a part of what `owner` does, and leaves the owner as it was. */
export function as<T>(owner: ProcessContext | null, work: () => T): T {
  const before = current.owner;
  current.owner = owner;
  try {
    return work();
  } finally {
    current.owner = before;
  }
}
