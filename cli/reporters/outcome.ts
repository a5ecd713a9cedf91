/** How results may be told. */
export const REPORTERS = ['default', 'json', 'junit', 'github', 'sarif', 'minimal'] as const;

/** Who tells of what was tried. */
export type Reporter = (typeof REPORTERS)[number];

/** One thing that was tried. `undecided`: nothing can be said; `skipped`: it was not tried. */
export interface Case {
  readonly name: string;
  readonly result: 'passed' | 'failed' | 'undecided' | 'skipped';
  /** Why it is not passed, in one line. */
  readonly message?: string;
  /** All that is known, as text of several lines without colours. */
  readonly text?: string;
  /** The file that it is about, from the working directory. */
  readonly file?: string;
  /** Of that file, from 1. */
  readonly line?: number;
  /** Of that line, from 1. */
  readonly column?: number;
  /** What it is about, for programs: the id of a finding or of a property. Default: `name`. */
  readonly rule?: string;
  /** What the rule says, in a sentence. */
  readonly title?: string;
  /** The id of the property that a finding breaks. */
  readonly property?: string;
  /** What mends it. */
  readonly help?: string;
  /** The command that shows it again. */
  readonly replay?: string;
  /** It fails, and is known to: it was skipped for that. */
  readonly isAccepted?: boolean;
}

/** What a verb tried, as continuous integration sees it. */
export interface Suite {
  /** `lockstep check`. */
  readonly name: string;
  readonly cases: readonly Case[];
  readonly seconds: number;
  /** What came of all of it, in one line. */
  readonly summary: string;
}

/** Whether a reporter says all there is to say, so that the usual text is left out. */
export function isAlone(reporter: Reporter): boolean {
  return reporter !== 'default' && reporter !== 'github';
}
