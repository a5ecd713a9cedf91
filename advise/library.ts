/** How a client takes its drift allowance. */
export interface DriftOption {
  /** What it adds to factor · TTL, µs. */
  readonly constantUs: number;
  /** What it makes of factor · TTL: cuts it to whole ms, or leaves it. */
  readonly whole: 'cut' | 'exact';
}

/** What an acquisition is to be written down with. */
export interface Acquisition {
  readonly ttlMs: number;
  /** `null`: that of the client. */
  readonly factor: string | null;
  /** The share of the TTL that nodes have to answer; `null`: that of the client. */
  readonly timeoutFactor: string | null;
  readonly fencing: boolean;
  /** Whether its caller tries again by a loop of its own, so that each try has a token of its own. */
  readonly ownTokens: boolean;
  /** What the work may take from then on, ms; `null`: the lock is extended meanwhile. */
  readonly workMs: number | null;
  /** Whether there is a {@link Library.guard} before its writes. */
  readonly guarded: boolean;
}

/** One client. */
export interface Library {
  readonly title: string;
  /** Where its settings go, as a heading. */
  readonly file: string;
  /** `null`: its allowance cannot be set. */
  readonly drift: DriftOption | null;
  /**
   * How long nodes have to answer, where that depends on the TTL: a share of it, ppm, or as much as the drift allowance.
   * Left out: what the profile says.
   */
  readonly timeout?: { readonly ppm: number } | 'allowance';
  /** What its users have to set so that it keeps to its time-out, or where they find what it has in place of one. */
  readonly timeoutHint?: string;
  /** The lines that acquire a lock, do the work (`work`, which is its user's, and gets its deadline) and release the lock. */
  readonly acquire: (wanted: Acquisition) => readonly string[];
  /** How it is told to try once, where it has such an option and {@link Library.acquire} writes the loop around it. */
  readonly tryOnce?: string;
  /** Whether it sends messages to a node over a pool of connections, by which they may overtake each other. */
  readonly pooled: boolean;
  /** Lines before a write that let it go ahead only with so much left of a lock that is valid for so long from when it was asked for. */
  readonly guard: (guardMs: number, validMs: number) => readonly string[];
  /** Whether it has fencing tokens. */
  readonly fencing: boolean;
  /** What everybody should know who uses it. */
  readonly caution?: string;
}
