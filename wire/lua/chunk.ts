/** How a script's text is to be run: it is compiled once. */
export interface Chunk {
  readonly text: string;
  /** What errors call it: `@user_script`. */
  readonly name: string;
}

/** A chunk in the registry. */
export interface Compiled {
  readonly ref: number;
  /** See {@link mayChange}. */
  readonly mayChange: boolean;
}

/** Of a text that does not compile. */
export const NOT_COMPILED: Compiled = { ref: 0, mayChange: true };

const CHANGES = /table|_G|load/;

/**
 * Whether a script could write to what is read-only. Only functions of `table` do that, and a script comes by them by that
 * name, by the table of all globals (`_G`, or the metatable of a library), or by code that it makes.
 */
export function mayChange(text: string): boolean {
  return CHANGES.test(text);
}
