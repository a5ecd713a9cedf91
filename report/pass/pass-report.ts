import type { SafetyMap } from '../../search/safety-map/index.js';
import type { Here } from '../safety-map/map-picture.js';

/** What a page says of a system that nothing was found against, as plain data. All texts are for readers, and are escaped. */
export interface PassReport {
  /** What was looked at, in a few words: `5 nodes, TTL 10 000 ms`, or the name of a file. */
  readonly subject: string;
  /** `passed`, `safe`, `safe if …`: what stands first, and largest. */
  readonly verdict: string;
  /** `good`: nothing was found. `open`: nothing can be said yet. `bad`: not safe as it is. `plain`: nothing is judged. */
  readonly tone: 'good' | 'open' | 'bad' | 'plain';
  /** What was found, and in how much; one sentence, or two. */
  readonly sentence: string;
  /** How far the system is from each bound. Left out of the page where there are none, like every list below. */
  readonly bounds: readonly BoundDistance[];
  /** A safety map with the place of the system on it. */
  readonly map: MapOfPass | null;
  /** What else belongs before the details, in its order: estimates, curves. Default: nothing. */
  readonly sections?: readonly PassSection[];
  /** What was tried: faults, situations that came about, with how often. */
  readonly tried: readonly Fact[];
  /** What was not, and how to try it. */
  readonly notTried: readonly Fact[];
  /** How near it came: claims within a millisecond or a vote of a violation, and the like. */
  readonly nearMisses: readonly Fact[];
  /** What to change if something is feared that was not assumed. */
  readonly changes: readonly Change[];
  /** Lines to put into files of one's own: `redis.conf`, a unit of systemd, settings of a client. */
  readonly lines: readonly LinesOfFile[];
  /** The configuration that all of this is about. */
  readonly configuration: readonly Fact[];
  /** What the result does and does not mean; one paragraph each. */
  readonly meaning: readonly string[];
  /** The command that made the page, and others that lead on. */
  readonly commands: readonly Command[];
}

/** A row of a list: a name, and what is said of it. */
export interface Fact {
  readonly name: string;
  readonly text: string;
}

/** A part of a page: rows, estimates with intervals, or a curve. A sentence may be empty. */
export type PassSection =
  | { readonly kind: 'facts'; readonly title: string; readonly facts: readonly Fact[] }
  | {
      readonly kind: 'estimates';
      readonly title: string;
      readonly sentence: string;
      readonly rows: readonly EstimateRow[];
    }
  | { readonly kind: 'curve'; readonly title: string; readonly sentence: string; readonly curve: Curve };

/** An estimate with its interval; none of its numbers is negative. */
export interface EstimateRow {
  readonly name: string;
  readonly value: number;
  readonly low: number;
  readonly high: number;
  /** The same for readers. */
  readonly text: string;
  /** What else is to be said; may be empty. */
  readonly note: string;
  /** A command that shows it; `null` for none. */
  readonly command: string | null;
}

/** One thing against another: what the axes are, and at least two points from left to right. */
export interface Curve {
  readonly x: string;
  readonly y: string;
  readonly points: readonly CurvePoint[];
}

/** A point with its figures for readers. */
export interface CurvePoint {
  readonly x: number;
  readonly y: number;
  readonly xText: string;
  readonly yText: string;
  readonly note: string;
  /** Whether it is that of the system. */
  readonly isHere: boolean;
}

/** How much of a bound a system uses. */
export interface BoundDistance {
  /** `rate of clocks`. */
  readonly name: string;
  /** What the system has, and the bound, with their units; `direction` says on which side of it is safe. */
  readonly yours: string;
  readonly bound: string;
  readonly direction: 'at most' | 'at least';
  /**
   * Share of the bound that is used: 0 is far, 1 is at it, more is past it. For a bound from below that is bound / value.
   * Infinite where it has nothing of what it needs, `null` where nothing of the kind is assumed: then only the bound is shown.
   */
  readonly used: number | null;
  /** What else is to be said; may be empty. */
  readonly note: string;
}

/** A safety map in a page. */
export interface MapOfPass {
  readonly map: SafetyMap;
  /** `null` marks nothing. */
  readonly here: Here | null;
  /** What the map shows, in one sentence. */
  readonly sentence: string;
}

/** What to do about a fear. */
export interface Change {
  /** `a node loses its data`. */
  readonly fear: string;
  readonly change: string;
  /** A command that shows the difference; `null` for none. */
  readonly command: string | null;
}

/** Lines for a file. */
export interface LinesOfFile {
  readonly file: string;
  readonly why: string;
  readonly lines: readonly string[];
}

/** A command, as it is pasted. */
export interface Command {
  readonly title: string;
  readonly command: string;
}
