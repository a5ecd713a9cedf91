import type { Unknown } from '../advise/unknowns.js';
import type { ClientKind } from '../audit/index.js';
import type { Health, Shape } from '../real/bench/types.js';
import type { ClientLibrary } from '../real/client-libraries.js';
import type { BoundId } from '../search/fault-model.js';
import type { SearchSettings } from '../search/settings.js';
import type { StrategyName } from '../search/strategy-info.js';
import type { Reporter } from './reporters/outcome.js';

/*
 * What the flags of each verb are once they are read.
 */

/** What a person asks of a search; what is left out has a default. */
export interface CheckFlags extends SearchSettings {
  /** The assumption whose bound is exceeded. */
  readonly exceed?: BoundId;
  /** By how much, ppm of the bound. */
  readonly exceedBy?: number;
  readonly strategy?: StrategyName;
  readonly runs?: number;
  /** µs. */
  readonly budget?: number;
  readonly seed?: string;
  /** Default: as there are cores. */
  readonly workers?: number;
  readonly shrink: boolean;
  /** The folder of committed schedules that are replayed first; `false` replays nothing. */
  readonly regressions?: string | false;
  readonly demo?: boolean;
  readonly reporter?: Reporter;
  /** Where the report of a failure goes; beside its schedule where left out. */
  readonly report?: string;
  readonly json?: boolean;
}

/** Flags of `replay`. */
export interface ReplayFlags {
  readonly all?: boolean;
  /** Of `--all`. */
  readonly reporter?: Reporter;
  /** On real nodes. */
  readonly real?: boolean;
  readonly format: 'text' | 'json' | 'svg' | 'html' | 'mermaid' | 'perfetto';
  /** Beside another one, or (`true`) beside the schedule as it was written. */
  readonly diff?: string | true;
  /** Writes the HTML report and opens it. */
  readonly open?: boolean;
  readonly with?: readonly string[];
  /** Leave out each piece by itself, and say what happens. */
  readonly explain?: boolean;
  readonly json?: boolean;
}

/** Flags of `list`. */
export interface ListFlags {
  /** The client profiles instead of the scenarios. */
  readonly profiles?: boolean;
  readonly json?: boolean;
}

/** Flags of `playground`. */
export interface PlaygroundFlags {
  /** A scenario, a file of one or of a schedule, or a client profile, that the address shows. */
  readonly at?: string;
  /** Show it where it is stepped through by hand. */
  readonly step?: boolean;
  readonly open?: boolean;
  readonly json?: boolean;
}

/** Flags of `mutants`. */
export interface MutantsFlags {
  readonly runs?: number;
  readonly seeds?: number;
  readonly strategy?: StrategyName;
  /** Compares all strategies. */
  readonly strategies?: boolean;
  readonly workers?: number;
  readonly reporter?: Reporter;
  readonly json?: boolean;
}

/** Flags of `bench`. */
export interface BenchFlags {
  readonly nodes?: readonly number[];
  readonly shapes?: readonly Shape[];
  readonly healths?: readonly Health[];
  readonly rounds?: number;
  readonly effort?: number;
  readonly clients?: readonly ClientLibrary[];
  readonly peers: boolean;
  readonly require?: boolean;
  /** Where the picture goes. */
  readonly picture?: string;
  /** Situations acted out instead of a benchmark. */
  readonly safety?: boolean;
  readonly json?: boolean;
}

/** Flags of `explore`. Times are in ticks. */
export interface ExploreFlags {
  readonly nodes?: number;
  readonly clients?: number;
  readonly ttl?: number;
  readonly crash?: number;
  readonly restartDelay?: number | 'ttl' | 'never';
  readonly rollback?: number;
  readonly drift?: number;
  readonly driftAllowance?: number;
  readonly loss?: number;
  readonly pause?: number;
  readonly retries?: number | 'forever';
  readonly extensions?: number;
  readonly releases?: boolean;
  readonly link?: 'fifo' | 'reordering';
  /** By client: the nodes that it is told of, by their numbers. */
  readonly sets?: readonly string[];
  readonly wait?: number | 'ttl';
  readonly off?: string;
  readonly drain?: boolean;
  readonly timeout?: number | 'never';
  readonly healing?: boolean;
  /** Of a planted bug. */
  readonly mutant?: string;
  readonly property?: 'mutual-exclusion' | 'quorum-backed' | 'acquisition' | 'fencing';
  readonly liveness?: boolean;
  readonly order?: 'breadth' | 'depth';
  readonly symmetry: boolean;
  readonly reduction: boolean;
  readonly maxStates?: number;
  /** µs. */
  readonly budget?: number;
  readonly checkpoint?: string;
  /** Where the page for a pass goes; none where left out. */
  readonly report?: string;
  readonly json?: boolean;
}

/** Flags of `doctor`. */
export interface DoctorFlags {
  readonly json?: boolean;
}

/** Shells that `completion` writes scripts for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** A shell that can be completed. */
export type Shell = (typeof SHELLS)[number];

/** Flags of `libraries`. */
export interface LibrariesFlags {
  readonly only?: readonly string[];
  /** A module of the user's own. */
  readonly file?: string;
  /** Two libraries beside each other; all pairs of them. */
  readonly pair?: readonly string[];
  readonly pairs?: boolean;
  /** Of pairs: only those that are given one key, or not. */
  readonly sameKey?: boolean;
  readonly faultClasses?: readonly string[];
  readonly nodes?: number;
  readonly runs?: number;
  readonly seed?: string;
  readonly workers?: number;
  readonly shrink: boolean;
  /** A schedule to show instead. */
  readonly replay?: string;
  readonly autoExtend?: boolean;
  /** With a schedule to show: as text, or as the page of the recorded run. */
  readonly format?: 'text' | 'html';
  /** With a schedule to show: writes its page and opens it. */
  readonly open?: boolean;
  readonly json?: boolean;
}

/** Flags of `sweep`. */
export interface SweepFlags {
  readonly profile?: string;
  readonly persistence?: 'none' | 'rdb' | 'everysec' | 'always';
  /** Where the page goes. */
  readonly report?: string;
  /** What the page marks: a value for each axis. */
  readonly here?: string;
  readonly json?: boolean;
}

/** Flags of `advise`. Durations and shares are as they were written: they are read with the whole description. */
export interface AdviseFlags {
  readonly nodes?: number;
  readonly persistence?: string;
  readonly restart?: string;
  readonly supervisor?: string;
  /** Name of a unit of systemd. */
  readonly unit?: string;
  readonly powerLoss?: boolean;
  readonly failover?: string;
  readonly atOnce?: number;
  readonly drift?: string;
  readonly steps?: string;
  readonly pause?: string;
  readonly latency?: string;
  readonly reordering?: boolean;
  readonly library?: string;
  readonly nodeTimeout?: string;
  readonly ttl?: string;
  readonly work?: string;
  readonly extends?: boolean;
  readonly checksToken?: boolean;
  readonly redis?: readonly string[];
  readonly solve?: readonly Unknown[];
  readonly runs?: number;
  readonly alternatives?: boolean;
  readonly check?: boolean;
  /** Where the description goes. */
  readonly save?: string;
  /** Where the description goes with the changes in place. */
  readonly saveAdvised?: string;
  /** Where the badge and the page go. */
  readonly badge?: string;
  readonly report?: string;
  readonly json?: boolean;
}

/** Flags of `risk`. */
export interface RiskFlags {
  readonly profile?: string;
  readonly persistence?: 'none' | 'rdb' | 'everysec' | 'always';
  readonly nodes?: number;
  /** ms. */
  readonly ttl?: number;
  /** µs. */
  readonly restartDelay?: number;
  /** Violations a year. */
  readonly atMost?: number;
  readonly changes: boolean;
  /** Prints published rates instead. */
  readonly typical?: boolean;
  readonly runs?: number;
  readonly seed?: string;
  readonly workers?: number;
  /** Where the page goes. */
  readonly report?: string;
  readonly json?: boolean;
}

/** Flags of `verify`. */
export interface VerifyFlags {
  /** Least error of all time stamps, µs. */
  readonly clockError?: number;
  readonly json?: boolean;
}

/** Flags of `mcp`. */
export interface McpFlags {
  /** Nothing above this folder is read or written. */
  readonly root?: string;
  /** Longest time of a call, µs. */
  readonly limit?: number;
}

/** Flags of `audit`. */
export interface AuditFlags {
  /** The functions that acquire and release. */
  readonly acquire?: string;
  readonly release?: string;
  readonly client?: ClientKind;
  readonly nodes?: number;
  readonly runs?: number;
  readonly seed?: string;
  /** Writes a test; `true` beside the file. */
  readonly test?: string | true;
  /** Leaves out files without a lock, though only one is named. */
  readonly skip?: boolean;
  /** The file of accepted findings, and whether those that are found are added to it. */
  readonly baseline?: string;
  readonly accept?: boolean;
  /** The file of a finding to show again. */
  readonly replay?: string;
  /** Where the page for a pass goes; none where left out. */
  readonly report?: string;
  readonly reporter?: Reporter;
  readonly json?: boolean;
}
