import type { Settings } from '../../core/index.js';

/** Files in which values were read. */
export interface Source {
  /** `owner/name` on GitHub, or `npm` for what was read in a published package. */
  readonly repository: string;
  /** Commit, or name and version of the package. */
  readonly commit: string;
  readonly paths: readonly string[];
}

/** Where the values of a profile come from. */
export interface Origin {
  readonly title: string;
  readonly language: string;
  /** `null` where the project has no versions. */
  readonly version: string | null;
  readonly sources: readonly Source[];
  /** Settings and deviations on which the sources say nothing: the settings have their defaults, and it has none of these. */
  readonly unknown: readonly string[];
  /** Where the profile is simpler than the library. */
  readonly simplified: readonly string[];
  /** What is different where the library extends by itself, and only does so if it is asked to. */
  readonly watched?: Partial<Omit<Settings, 'fencing'>>;
}
