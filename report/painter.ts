/** Colours for a terminal. The texts of this room have none by themselves. */
export interface Painter {
  /** What is wrong. */
  readonly bad: (text: string) => string;
  /** What is as it should be. */
  readonly good: (text: string) => string;
  /** What matters. */
  readonly strong: (text: string) => string;
  /** What is beside the point. */
  readonly dim: (text: string) => string;
}

const asItIs = (text: string): string => text;

/** Leaves every text as it is. */
export const PLAIN: Painter = { bad: asItIs, good: asItIs, strong: asItIs, dim: asItIs };

function sgr(on: number, off: number): (text: string) => string {
  return (text) => `\u001b[${on}m${text}\u001b[${off}m`;
}

/** ANSI colours. Nothing is told by colour alone. */
export const ANSI: Painter = { bad: sgr(31, 39), good: sgr(32, 39), strong: sgr(1, 22), dim: sgr(2, 22) };

/** All that {@link ANSI} puts around a text. */
export const ANSI_SEQUENCES: readonly string[] = Object.values(ANSI).flatMap((paint) => paint('|').split('|'));
