import type { Schedule } from './schedule.js';

/** What kind of promise a property is. They are never mixed: one may break while the others hold. */
export type PropertyKind = 'belief' | 'state' | 'effect' | 'liveness';

/** The properties, by the only names that code, files and output use. */
export const PROPERTY_IDS = [
  'mutual-exclusion',
  'quorum-backed',
  'owner-only-release',
  'loss-notified',
  'extension',
  'acquisition',
  'deadlock-free',
  'fault-tolerance',
  'fencing',
  'progress',
  'cleanup',
  'release-to-all',
  'unique-token',
  'one-lock-per-token',
  'bounded-key-lifetime',
  'no-stale-write',
  'continuity',
  'determinism',
  'message-integrity',
] as const;

/** One of {@link PROPERTY_IDS}. */
export type PropertyId = (typeof PROPERTY_IDS)[number];

/** One word for a run: of a fixed schedule or an exhausted space `safe`, of a random search `passed`. */
export type Verdict = 'violated' | 'inconclusive' | 'unavailable' | 'passed' | 'safe';

/** A violation that is expected: those of its fields that are given must agree exactly. */
export interface ExpectedViolation {
  readonly property: PropertyId;
  /** First instant, µs of true time. */
  readonly atUs?: number;
  /** End of the violation, µs of true time. */
  readonly untilUs?: number;
  readonly resource?: string;
}

/** What a schedule must give. */
export interface Expectation {
  readonly verdict: Verdict;
  /** All of these, in any order; a `safe` run has none at all. */
  readonly violations?: readonly ExpectedViolation[];
  /** Exactly these intervals, µs of true time. */
  readonly unavailable?: readonly { readonly fromUs: number; readonly toUs: number }[];
  /** Claims by client in order of time, `client@µs`; all of them. */
  readonly claims?: readonly string[];
  /**
   * What became of each write that reached the resource, in order of time, `client@µs accepted`: `refused`, or `stale` if
   * it was accepted though its client no longer held the lock.
   */
  readonly writes?: readonly string[];
  /** The trace hash of a found failure. */
  readonly hash?: string;
}

/** One JSON Patch operation (RFC 6902) on the schedule. */
export type Change =
  | { readonly op: 'replace' | 'add'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** The same schedule with something changed, and the outcome then. */
export interface Variant {
  /** What is different, in words. */
  readonly title: string;
  /** A mitigation as `replay --with` takes it. */
  readonly with?: string;
  readonly change?: readonly Change[];
  readonly expect: Expectation;
}

/** A schedule with its story and its verdict: an entry of the catalogue, or a found failure. */
export interface Scenario {
  readonly schema: 'lockstep.scenario/1';
  /** `S03`; of a found failure, its file name. */
  readonly id: string;
  /** A name in words, for people to type instead: `restart-without-persistence`. */
  readonly slug?: string;
  readonly title: string;
  /** What happens, and why it matters. */
  readonly story: string;
  /** Where it comes from. */
  readonly source: string;
  readonly schedule: Schedule;
  readonly expect: Expectation;
  /** Mitigations that change the verdict. */
  readonly flips: readonly Variant[];
  /** Why there are none, though there is something to prevent. */
  readonly noFlips?: string;
  /** The smallest changes after which the verdict differs. */
  readonly neighbours: readonly Variant[];
  /** Why there are none. */
  readonly noNeighbours?: string;
}
