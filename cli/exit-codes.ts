/** What the command's exit code says. */
export const Exit = {
  /** Passed, or the expected verdict was reproduced. */
  ok: 0,
  /** Violated, or unavailable. */
  violated: 1,
  /** Nothing could be decided. */
  inconclusive: 2,
  /** A replay did not give what was expected. */
  notReproduced: 3,
  /** A benchmark missed its threshold. */
  tooSlow: 4,
  /** Wrong usage or input. */
  usage: 64,
  /** A bug of this program. */
  internal: 70,
  interrupted: 130,
} as const;

/** One of {@link Exit}. */
export type ExitCode = (typeof Exit)[keyof typeof Exit];
