import type { ViolationKind } from '../libraries/search/kinds.js';
import type { PropertyId } from '../scenarios/index.js';
import type { Said } from './said.js';
import type { Trial } from './trial.js';

/** What is wrong with a lock, and what shows it. */
export interface Defect {
  /** Short, for programs: `blind-release`. */
  readonly id: string;
  readonly sentence: string;
  readonly fix: string;
  /** Kinds of failure that it brings about. */
  readonly brings: readonly ViolationKind[];
  /** The property that it breaks, where no failure that it brings about says so. */
  readonly property?: PropertyId;
  /** Using the lock with nothing in its way has shown it: no search is needed. */
  readonly isShown: boolean;
  /** The command in which it lies, in upper case, where it lies in one. */
  readonly verb?: string;
  /** Where it is, if that is not the function that acquires: `lock.ts:12`. */
  readonly where?: string;
  /** How the key of a holder goes by it, where it goes in one way. */
  readonly takes?: 'deleted' | 'overwritten' | 'expired';
}

/** What the lock sends for its key. */
export interface Commands {
  readonly trial: Trial;
  readonly acquire: Said | undefined;
  readonly before: readonly Said[];
  readonly extensions: readonly Said[];
  readonly releases: readonly Said[];
  /** Commands between its acquisition and its release that look at the key: the last that reads it, and that watches it. */
  readonly readAt: number;
  readonly watchedAt: number;
}

/** What a lock has sent for its key, in its order. */
export function commandsOf(trial: Trial): Commands {
  const own = trial.sent.filter(({ key }) => key === trial.key);
  const first = own.findIndex(({ operation }) => operation === 'acquire');
  const release = own.findIndex(({ operation }) => operation === 'release');
  const between = release < 0 ? [] : own.slice(first + 1, release);
  return {
    trial,
    acquire: own[first],
    before: own.slice(0, Math.max(0, first)),
    extensions: own.filter(({ operation }) => operation === 'extend'),
    releases: own.filter(({ operation }) => operation === 'release'),
    readAt: between.findLastIndex(({ verb }) => verb === 'get' || verb === 'mget'),
    watchedAt: between.findLastIndex(({ verb }) => verb === 'watch'),
  };
}

/** Kinds of failure that come of two holders. */
export const EXCLUSION: readonly ViolationKind[] = ['belief', 'state', 'token', 'continuity', 'margin'];
