import type { Redis, RedisOptions } from 'ioredis';
import { printable } from '../../text/printable.js';

const LONGEST_MESSAGE = 1_000;

/**
 * Where nodes come from: given URLs, own processes of the server on the PATH, own containers, own processes of the
 * distribution's package unpacked into the cache, or the mock that only shows the API.
 */
export type Source = 'urls' | 'processes' | 'containers' | 'package' | 'mock';

/**
 * How much own servers write to disk: nothing, an append-only file with this `appendfsync`, or from time to time a dump of
 * everything (`rdb`: Redis's default save points, and whenever a client asks for BGSAVE).
 */
export type Persistence = 'none' | 'rdb' | 'no' | 'everysec' | 'always';

/** A program that is a server too, and takes the options of redis-server. */
export interface OtherServer {
  /** For a person. */
  readonly name: string;
  readonly command: readonly string[];
}

/** Which nodes are wanted. */
export interface ProvisionOptions {
  /** How many nodes. */
  readonly nodes: number;
  /** Where they may come from; they are tried in the order of {@link Source}. Default: all but `mock`. */
  readonly sources?: readonly Source[];
  /** For own processes and containers. Default `none`: a killed node forgets everything. */
  readonly persistence?: Persistence;
  /** Gives own processes clocks that can be set, where libfaketime is found. Default `false`: it costs speed. */
  readonly clocks?: boolean;
  /** Programs that the last of own processes run instead, one each. Default none. */
  readonly others?: readonly OtherServer[];
  /** Where `LOCKSTEP_REDIS`, `PATH` and `LOCKSTEP_REDIS_IMAGE` are looked up. Default `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** How a node comes back. */
export interface RestartOptions {
  /** Whether the node comes back with its keys, or empty. */
  readonly keepData: boolean;
}

/** How a node's clock runs from now on. */
export interface ClockSetting {
  /** How far it is ahead of the machine's now, ms; negative is behind. */
  readonly aheadMs: number;
  /** Its speed: 1.01 is 1 % fast. Default 1. */
  readonly rate?: number;
}

/** One node to run locks against. Faults of nodes that are not ours reject with a {@link ProvisionError}. */
export interface ProvisionedNode {
  /** n0, n1, … */
  readonly name: string;
  /** With a password, if it has one: see `withoutPassword`. */
  readonly url: string;
  /** A new client, closed by `stop` if it was not before. It logs no connection errors. */
  client(options?: RedisOptions): Redis;
  /** Ends the process as a crash does (SIGKILL). */
  kill(): Promise<void>;
  /** Stops the process in its tracks (SIGSTOP, or the engine's freezer): connections stay open, nothing is answered. */
  pause(): Promise<void>;
  /** Lets a paused process run on. */
  resume(): Promise<void>;
  /**
   * Notes that all that was written so far is on disk, as after an fsync: {@link cutPower} leaves it. Only own processes
   * with an append-only file can do this.
   */
  sync(): Promise<void>;
  /**
   * Ends the process as a power failure of its machine does: what its append-only file got after the last {@link sync}
   * is gone, unless the node writes with `always`, which has everything on disk that it acknowledged.
   */
  cutPower(): Promise<void>;
  /** Sets the clock that the node reads, now and for all its further starts; {@link Provision.clocks} says whether it can. */
  setClock(setting: ClockSetting): Promise<void>;
  /** Ends the process if it runs, and starts it again at the same URL. */
  restart(options: RestartOptions): Promise<void>;
}

/** Nodes to run locks against, until they are stopped. */
export interface Provision extends AsyncDisposable {
  readonly source: Source;
  /** What the nodes are, for a person: `5 × Redis server v=7.0.15 …`. */
  readonly description: string;
  /** Whether `kill`, `pause`, `resume` and `restart` work. */
  readonly faults: boolean;
  /** Whether `setClock` works. */
  readonly clocks: boolean;
  readonly nodes: readonly ProvisionedNode[];
  readonly urls: readonly string[];
  /** Closes the clients, ends own processes or containers and removes what they wrote. */
  stop(): Promise<void>;
}

/** Nodes cannot be had, or cannot do what was asked of them. The message is one sentence for a person. */
export class ProvisionError extends Error {
  override readonly name: 'ProvisionError' = 'ProvisionError';

  constructor(message: string, options?: ErrorOptions) {
    super(printable(message, LONGEST_MESSAGE), options);
  }
}
