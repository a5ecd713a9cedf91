/** A library of functions, as `FUNCTION LOAD` takes it. */
export interface Library {
  readonly name: string;
  readonly code: string;
  /** By name. */
  readonly functions: ReadonlyMap<string, LibraryFunction>;
}

/** A function that `FCALL` calls. */
interface LibraryFunction {
  readonly name: string;
  readonly description: string | null;
  readonly flags: readonly string[];
}
