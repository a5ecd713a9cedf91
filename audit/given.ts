import type { Modes } from './modes.js';
import type { Parameter } from './parameter.js';
import type { Terms } from './terms.js';

/** What a call of the lock may be given. */
export interface Given {
  readonly key: string;
  readonly ttlMs: number;
  /** A value that is this acquisition's own. */
  readonly token: string;
  /** Of all nodes; the first is that of a lock on one node. */
  readonly clients: () => readonly unknown[];
  /** The client that a parameter is handed; the first of all nodes where left out. */
  readonly clientFor?: (parameter: Parameter) => unknown;
  readonly urls: readonly string[];
  /** The same for a file that takes addresses apart, or puts them together: `n0:6379`. */
  readonly places: readonly string[];
  /** Names of parameters that a file reads from the URL of a request. */
  readonly queries?: readonly string[];
  readonly library: unknown;
  /** Of `redlock`, above the first client; `undefined` where the file does not name that. */
  readonly redlock?: () => unknown;
  /** What is run under the lock. */
  readonly work?: (...given: readonly unknown[]) => unknown;
  /** Aborts when a call that goes on until then is to end. */
  readonly stop?: AbortSignal;
  /** What is told by a callback of Node's style. */
  readonly callback?: (error: unknown, result: unknown) => void;
  /** The answer to a request. */
  readonly response?: unknown;
  /** What a decorator is given, whose value is the work. */
  readonly descriptor?: PropertyDescriptor;
  /** What an acquisition gave, for its release. */
  readonly held?: unknown;
  /** How many ms a TTL of 1 means. */
  readonly unitMs: number;
  /** Makes an object of a class of the file, by its name; `undefined` where there is none. */
  readonly make?: (className: string) => unknown;
  /** The same of one that has all methods that are called on something; `undefined` where there is none. */
  readonly makeLike?: (handed: Parameter) => unknown;
  /** What a method is called on that a decorator has made of the work. */
  readonly instance?: (method: (...given: readonly unknown[]) => unknown) => object;
  /** What a function can do without is left to its defaults. */
  readonly isBare?: boolean;
  /** By which texts the file tells readers from writers; `null` where it does not. */
  readonly modes?: Modes | null;
  /** It is asked for by one who only reads. */
  readonly reads?: boolean;
  /** It is a function that does work of its own, as the handler of a request. */
  readonly worksItself?: boolean;
  /** It is the call that acquires. */
  readonly isAcquiring?: boolean;
  /** Arguments, and properties of these (`order.id`), that have another value than in other calls. */
  readonly differs?: ReadonlySet<string>;
  /** Those that say who asks. */
  readonly owners?: ReadonlySet<string>;
  /** Those that have the value that another one has in other calls. */
  readonly swaps?: ReadonlyMap<string, string>;
  /** Arguments, and properties of these, that have to be another thing than one before them. */
  readonly others?: ReadonlySet<string>;
  /** It begins to campaign, and runs what it was made with for as long as it leads. */
  readonly leads?: boolean;
  /** What a leader tells of its terms, and a lock of its end. */
  readonly terms?: Terms;
  /** Receives the names of all that have a value of this kind. */
  names?: Set<string>;
  /** What the function that acquires calls its parameters. */
  named?: readonly string[];
}
