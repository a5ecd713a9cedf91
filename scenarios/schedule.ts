import type { Operation } from '../core/index.js';
import type { ClientTiming, PolicyChoice } from '../deviations/index.js';

/**
 * One run, written down completely: cluster, clients and their work, faults with their times, and what became of each
 * message. Written by a person, a random search or a shrinker, it replays to the same trace. Instants are true
 * time from the start of the run, in whole microseconds; what a process measures is on its own clock.
 */
export interface Schedule {
  readonly schema: 'lockstep.schedule/2';
  readonly cluster: Cluster;
  /** What all clients follow. */
  readonly policy: PolicyChoice;
  readonly clients: readonly ClientPlan[];
  /** At one instant they strike in this order. */
  readonly faults: readonly Fault[];
  /** A message without a fate here takes the cluster's `delayUs`. A fate for a message that is never sent is idle; a replay names it. */
  readonly fates: readonly Fate[];
  /** What the protected resources do about writes; `none` where left out. */
  readonly resource?: ResourceGuard;
  /** The run ends here at the latest, µs of true time. */
  readonly untilUs: number;
}

/**
 * What a protected resource looks at before it takes a write. `none`: at nothing. `fencing`: refuses a fencing token that
 * is lower than one it has seen. `cas`: the first write of a lock leaves the lock's own token, and those behind it are
 * refused unless it is still there. `fencing-strict` is a bug: it refuses the token it has seen last, too.
 */
export type ResourceGuard = 'none' | 'fencing' | 'cas' | 'fencing-strict';

/** A client (`c1`, `c2`, …) or a node (`n0`, `n1`, …). */
export type ProcessName = string;

/** The Redis nodes `n0` to `n<nodes - 1>` and what connects them with the clients. */
export interface Cluster {
  /** 1 to 31. */
  readonly nodes: number;
  /** One-way delay of a message without a fate of its own, µs. */
  readonly delayUs: number;
  /** Client and node pairs that are nearer or farther than that. */
  readonly distances: readonly Distance[];
  /** `fifo` delivers in sending order per client, node and direction, as one TCP connection does. */
  readonly link: 'fifo' | 'reordering';
  /** A key with expiry `when` is gone once the node's clock is `after` it (`now > when`, Redis), or already `at` it. */
  readonly expiry: 'after' | 'at';
  /** Resolution of the nodes' expiry clock, µs: 1000 as in Redis, 1 to measure bounds exactly. */
  readonly resolutionUs: 1000 | 1;
  /**
   * What survives a crash: `none` restarts empty; `always` keeps all that was acknowledged (AOF, fsync always);
   * `everysec` keeps what a background fsync had taken to disk when the power went, and all of it if only the process
   * died, unless an fsync was running; `rdb` keeps the last dump that was complete.
   */
  readonly persistence: 'none' | 'rdb' | 'everysec' | 'always';
  /** The background fsync of `everysec`; every second from the start on, taking no time, where left out. */
  readonly fsync?: FsyncPlan;
  /** The dumps of `rdb`, of what the node has as each starts; every hour, taking no time, where left out. */
  readonly dumps?: FsyncPlan;
  /** Each node has an asynchronous replica this far behind, µs; `null` for none. See the `failover` fault. */
  readonly replicaLagUs: number | null;
  /**
   * When a node says yes to a command that sets or lengthens keys: once it has carried it out (`executed`), once its
   * replica has it (`replicated`: `WAIT 1`), or once it is on disk (`durable`: `WAITAOF 1 0`, or fsync always). Where left
   * out, `durable` under the persistence `always`, else `executed`. Under `always`, `executed` is a bug to plant: what is
   * on disk then is as under `everysec`.
   */
  readonly answers?: 'executed' | 'replicated' | 'durable';
  /** What a restart makes of the expiry of a key: an instant, as in Redis, or (a bug to plant) a TTL that starts again. */
  readonly expiryAtLoad?: 'absolute' | 'restarts';
  /**
   * How commands that are scripts go to nodes: `by-text` (where left out), whole, in one message; or `by-hash`
   * (`EVALSHA`), which a node understands as long as its process lives, because clients load their scripts as they
   * connect. One whose process is new says `NOSCRIPT`; the client sends the text (`EVAL`), as the next `send`, and the
   * node knows that script from then on.
   */
  readonly scripts?: 'by-text' | 'by-hash';
  /** Clocks that are not perfect. */
  readonly clocks: readonly ClockPlan[];
}

/**
 * Background fsyncs, or dumps, start at `firstUs + k × everyUs` of true time; each takes `takesUs` to complete, µs. None
 * starts while one runs: where they take longer than `everyUs`, each starts as the one before it is complete.
 */
export interface FsyncPlan {
  readonly firstUs: number;
  readonly everyUs: number;
  readonly takesUs: number;
}

/** The usual one-way delay between a client and a node, µs, both ways. */
export interface Distance {
  readonly client: ProcessName;
  readonly node: ProcessName;
  readonly delayUs: number;
}

/**
 * The deviation of a process's clocks from true time from the start of the run on. A node has one clock, by which it
 * expires keys and which can be set. A client has three, and reads the one that its policy names.
 */
export interface ClockPlan {
  readonly process: ProcessName;
  readonly offsetUs: number;
  /** Parts per million too fast (or, negative, too slow), within ±500 000. */
  readonly ratePpm: number;
}

/** What a client does, and what it knows of the cluster. */
export interface ClientPlan {
  readonly id: ProcessName;
  /**
   * The nodes that this client is told of, in its order; one of them may be named twice by mistake. All nodes of the
   * cluster where left out. See the `reconfigure` fault.
   */
  readonly nodes?: readonly ProcessName[];
  /** What this client puts before the name of a resource to make a key of it; nothing where left out. */
  readonly keyPrefix?: string;
  /** How this client tells the time, where it differs from the policy. */
  readonly timing?: ClientTiming;
  /** Numbered from 0 in this order; they may overlap in time. */
  readonly locks: readonly LockPlan[];
}

/** One acquisition and what its client does with it. Times after the claim are on the client's clock. */
export interface LockPlan {
  /** When `acquire` is called, µs of true time. */
  readonly atUs: number;
  readonly resources: readonly string[];
  readonly ttlMs: number;
  /** From the claim to the call of `release`, expired or not, µs; `null` never releases. */
  readonly holdUs: number | null;
  readonly extensions: readonly ExtensionPlan[];
  readonly writes: readonly WritePlan[];
  /** Where in its range the pause after each attempt lies, ppm; 500 000 (the middle) where the list ends. */
  readonly jitterPpm: readonly number[];
}

/** An extension that a client asks for while it holds its lock. */
export interface ExtensionPlan {
  /** From the claim to the call, µs. */
  readonly afterUs: number;
  readonly ttlMs: number;
}

/** A write to the protected resource: the client checks its lock, and later sends. */
export interface WritePlan {
  /** From the claim to the check, µs. */
  readonly checkAfterUs: number;
  /** Least validity left for the write to go ahead, µs; `null` does not check. */
  readonly guardUs: number | null;
  /** From the claim to the sending, at or after the check, µs. */
  readonly sendAfterUs: number;
  /** From the sending to the arrival at the resource, µs of true time. */
  readonly delayUs: number;
}

/** At one instant: faults marked `before` (the default), deliveries, calls and timers, faults marked `after`. */
export type Edge = 'before' | 'after';

interface FaultBase {
  /** µs of true time. */
  readonly atUs: number;
  readonly edge?: Edge;
}

/** A node stops at once. It answers again `restartAfterUs` later (0: in the same instant), or never. */
export interface Crash extends FaultBase {
  readonly kind: 'crash';
  readonly node: ProcessName;
  /** The power goes, not only the process: what is not on disk is lost. Default `false`. */
  readonly power?: boolean;
  /** The server is shut down in order (`SHUTDOWN`): all that it keeps on a disk is on it. Default `false`. */
  readonly clean?: boolean;
  /**
   * What is loaded at the restart is what the disk had this long before the crash, µs: an older dump, or a disk that an
   * operator restored. Default 0, what it had then.
   */
  readonly ageUs?: number;
  readonly restartAfterUs: number | null;
  /**
   * What measures that: true time (the default), or the node's clock, which may run at another rate and be set, as of an
   * operator or a script that waits until a time of day.
   */
  readonly restartBy?: 'true-time' | 'node-clock';
}

/** A replica of a node takes over, with what had reached it: under the node's address, or as a node of its own. */
export interface Failover extends FaultBase {
  readonly kind: 'failover';
  readonly node: ProcessName;
  /**
   * The node that is the replica, with a clock of its own. The old master, if it is up, goes on serving who still talks
   * to it; clients move by a `reconfigure` fault.
   */
  readonly to?: ProcessName;
  /** How far this replica is behind, µs; the cluster's `replicaLagUs` where left out. */
  readonly lagUs?: number;
}

/** A client is told of other nodes: what it acquires from now on, it acquires there. Its older locks keep their nodes. */
export interface Reconfigure extends FaultBase {
  readonly kind: 'reconfigure';
  readonly client: ProcessName;
  readonly nodes: readonly ProcessName[];
}

/** A node loses keys while it runs: an operator's DEL or FLUSHALL, or eviction. */
export interface DataLoss extends FaultBase {
  readonly kind: 'data-loss';
  readonly node: ProcessName;
  /** Only this resource; all of them where left out. */
  readonly resource?: string;
}

/**
 * A node answers these operations with an error, and carries none of them out: `acquire` and `extend` under OOM,
 * `release` under NOPERM for scripts, all of them under LOADING, READONLY, MISCONF or BUSY.
 */
export interface ErrorReplies extends FaultBase {
  readonly kind: 'error-replies';
  readonly node: ProcessName;
  readonly operations: readonly Operation[];
  readonly forUs: number;
  /** What Redis says. It is for readers: to a lock one error is like another, no vote. */
  readonly error?: RedisError;
}

/** Error replies that a lock may meet, by their first word. */
export type RedisError =
  | 'OOM'
  | 'NOPERM'
  | 'MISCONF'
  | 'NOREPLICAS'
  | 'BUSY'
  | 'LOADING'
  | 'READONLY'
  | 'MASTERDOWN'
  | 'MOVED'
  | 'ASK'
  | 'CROSSSLOT';

/**
 * A client dies, with all its locks. A new process in its place begins `restartAfterUs` later (0: in the same instant),
 * or never where left out: it knows nothing of those locks, and goes on with what was still to be asked for.
 */
export interface ClientCrash extends FaultBase {
  readonly kind: 'client-crash';
  readonly client: ProcessName;
  readonly restartAfterUs?: number;
}

/** A process is frozen (GC, SIGSTOP): its clocks run, messages and timers wait. */
export interface Pause extends FaultBase {
  readonly kind: 'pause';
  readonly process: ProcessName;
  readonly forUs: number;
  /** What comes first of all that waited: an event loop may do either. Default `deliveries`. */
  readonly first?: 'deliveries' | 'timers';
}

/** The machine of a process stops, and some of its clocks with it. */
export interface Suspend extends FaultBase {
  readonly kind: 'suspend';
  readonly process: ProcessName;
  readonly forUs: number;
  /**
   * `monotonic` (the default): a laptop that sleeps, or a virtual machine whose time is put right as it goes on; only a
   * client's monotonic clock stops. `all`: a virtual machine that is paused and does not hear of it.
   */
  readonly stops?: 'monotonic' | 'all';
}

/** The clock of a node, or the wall clock of a client, jumps. */
export interface ClockStep extends FaultBase {
  readonly kind: 'clock-step';
  readonly process: ProcessName;
  readonly byUs: number;
}

/** The clocks of a process run at another rate from now on: slewing. */
export interface ClockRate extends FaultBase {
  readonly kind: 'clock-drift';
  readonly process: ProcessName;
  readonly ratePpm: number;
}

/**
 * Messages sent between the two sides are lost; one way only if so said. Those already on their way arrive. What else a
 * network does to single messages, their fates say.
 */
export interface Partition extends FaultBase {
  readonly kind: 'partition';
  readonly from: readonly ProcessName[];
  readonly to: readonly ProcessName[];
  readonly oneWay: boolean;
  readonly forUs: number;
  /** The messages are not lost, but leave when it is over, as TCP sends them again. Default `false`. */
  readonly holds?: boolean;
}

/** Anything that happens to processes and nodes. */
export type Fault =
  | Crash
  | Failover
  | Reconfigure
  | DataLoss
  | ErrorReplies
  | ClientCrash
  | Pause
  | Suspend
  | ClockStep
  | ClockRate
  | Partition;

/** Which message: what it is, not when it was sent. Numbers count from 0 and are 0 where left out. */
export interface MessageAddress {
  readonly client: ProcessName;
  readonly lock?: number;
  readonly attempt?: number;
  readonly operation: Operation;
  /** Round of extension. */
  readonly round?: number;
  readonly node: ProcessName;
  readonly direction: 'request' | 'reply';
  /** Counts repeated sendings of the same command to the same node, and replies to duplicates of it. */
  readonly send?: number;
}

/** What becomes of one message. */
export interface Fate extends MessageAddress {
  /** One-way delay, µs; the cluster's where left out. */
  readonly delayUs?: number;
  readonly lost?: boolean;
  /** One-way delay of a second copy, µs. */
  readonly duplicateDelayUs?: number;
  /**
   * Of a request: unless the answer is there by then, the connection breaks this long after the sending, µs. What is
   * still on its way back is lost, and the client's library sends the command again over a new connection, as the next
   * `send`.
   */
  readonly resendAfterUs?: number;
}
