import type { MakeLock } from '../lock-under-test.js';

/** An npm library that the matrix knows. */
export interface Library {
  /** How it is named in commands. */
  readonly id: string;
  /** The npm package, and its version. */
  readonly package: string;
  readonly version: string;
  /** What is taken for its belief: what it exposes. */
  readonly belief: string;
  /** Whether it can keep a lock alive by itself. */
  readonly extendsItself: boolean;
  /** Loads it, unmodified. The dispatchers are in their places by then. */
  readonly load: () => Promise<MakeLock>;
}

/** Retries of an acquisition, and the pause between them, ms: few and short, so that a run is short. */
export const RETRIES = 3;

/** Between two tries of a library, ms. */
export const RETRY_DELAY_MS = 100;

/** What is drawn on top of it at most, ms. */
export const RETRY_JITTER_MS = 50;
