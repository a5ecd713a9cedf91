import type { Policy } from '../deviations/index.js';

/*
 * A system as its operator describes it: nodes, clocks, pauses, network, client and work. Every duration is µs and every
 * share or rate ppm. `parse-system.ts` reads it from the form in which people write it, with its defaults.
 */

/** What restarts a node that has stopped, and so where a restart delay is written down. */
export const SUPERVISORS = ['systemd', 'kubernetes', 'docker', 'managed', 'other'] as const;

/** See {@link SUPERVISORS}; `managed` is a service whose restarts its users cannot change. */
export type Supervisor = (typeof SUPERVISORS)[number];

/** One Redis node. */
export interface SystemNode {
  /** What it writes to its disk: nothing, dumps, or an append-only file with the fsync of that name. Default `none`. */
  readonly persistence: 'none' | 'rdb' | 'everysec' | 'always';
  /** Whether a restarted node finds its disk again. `false`: a new one is empty (`emptyDir`, an instance store). Default `true`. */
  readonly diskKept: boolean;
  /**
   * The soonest that it serves again after a stop, µs of true time: what is *made sure*, not what is usual. `null`: it stays
   * away until somebody has waited for longer than any lock lives. Default 0.
   */
  readonly restartUs: number | null;
  /** Whether the machine may lose its power, or be reset, and not only the process be killed. Default `true`. */
  readonly powerLoss: boolean;
  /** Whether Redis may evict keys of the lock for want of memory (`maxmemory-policy` other than `noeviction`). Default `false`. */
  readonly evicts: boolean;
  /** How far a replica that may take over is behind, µs; `null`: none takes over, or only one that has every vote. Default `null`. */
  readonly failoverLagUs: number | null;
  readonly supervisor: Supervisor;
  /** The name of its unit of systemd, without `.service`. Default `redis-server`, as on Debian and Ubuntu. */
  readonly unit: string;
}

/** How wrong clocks may be. */
export interface SystemClocks {
  /** Error of the rate of every clock, ppm, either way. Default 500: what NTP slews at most. */
  readonly driftPpm: number;
  /**
   * How far the clock of a node may be set forward while a lock is held, µs; `null`: by any amount (a time service that
   * steps). Default 0.
   */
  readonly nodeStepUs: number | null;
  /** How far the wall clock of a client may be set back in that time, µs; `null`: by any amount. Default: as `nodeStepUs`. */
  readonly clientStepUs: number | null;
}

/** How long processes of clients are paused at most, µs, while they hold a lock. */
export interface SystemPauses {
  /** Garbage collection, SIGSTOP, a throttled container: clocks go on. Default 0. */
  readonly processUs: number;
  /** A machine that sleeps: its monotonic clock stops. Default 0. */
  readonly suspendUs: number;
  /** A virtual machine that is paused or moved, which no clock of its own counts. Default 0. */
  readonly vmUs: number;
}

/** The network between clients, nodes and the protected resource; one way, µs. */
export interface SystemNetwork {
  /** No message is quicker. Default 0, the worst for the lock. */
  readonly leastUs: number;
  /** What messages take as a rule at most; slower ones are lost to the lock. Default 10 ms. */
  readonly mostUs: number;
  /** What a write takes at most until the protected resource has it. Default: as `mostUs`. */
  readonly writeUs: number;
  /**
   * Whether messages of a client to a node may overtake each other, as those of a pool of connections do. Default: whether the
   * library has such a pool.
   */
  readonly reordering: boolean;
}

/** The client library, and what is chosen for it. */
export interface SystemClient {
  /** The profile of the library, `reference` for `lockstep-redlock`, with the settings of this system in it. */
  readonly policy: Policy;
  readonly ttlMs: number;
  /** Clients that contend for a lock. At least 1; default 2. */
  readonly clients: number;
  /** Validity that is asked for before each write, µs; `null`: writes are not checked. Default `null`. */
  readonly guardUs: number | null;
}

/** What is done under the lock. */
export interface SystemWork {
  /** The longest that a lock is needed for, µs, extensions included. Default: half of the TTL. */
  readonly longestUs: number;
  /** Whether the lock is extended while the work goes on. Default: whether the library does so by itself. */
  readonly extends: boolean;
  /** Whether it writes to something that two holders may spoil. Default `true`. */
  readonly writes: boolean;
}

/** A system, whole. */
export interface System {
  readonly name: string;
  /** 1 to 31. */
  readonly nodes: readonly SystemNode[];
  /** Nodes that may lose their memory, or have their clock set, while one lock is held. Default: all of them. */
  readonly atOnce: number;
  readonly clocks: SystemClocks;
  readonly pauses: SystemPauses;
  readonly network: SystemNetwork;
  readonly client: SystemClient;
  readonly work: SystemWork;
  readonly resource: {
    /** Whether the protected resource can refuse a token that is lower than one it has seen. Default `false`. */
    readonly checksToken: boolean;
  };
  /** Fields of the description that were left out and have their default, such as `clocks.drift`. */
  readonly defaulted: readonly string[];
  /** How often things happen; its form is that of `lockstep risk`. */
  readonly rates?: unknown;
}

/** A description of a system in the form in which people write it; `parse-system.ts` reads it. */
export type Description = Readonly<Record<string, unknown>>;
