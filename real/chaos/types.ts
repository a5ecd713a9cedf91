import type { ClientLibrary } from '../client-libraries.js';
import type { OtherServer } from '../provisioner/index.js';

/** What a client process reaches the nodes by: a client of a program, or REST, as Upstash has it, through a bridge of its own. */
export type ChaosClient = ClientLibrary | 'upstash';

/** Whether the nodes keep to what the lock assumes, or restart at once without what they knew. */
export type ChaosPhase = 'within' | 'outside';

/** What a chaos run is. */
export interface ChaosOptions {
  /** How long, ms, without starting and cleaning up. */
  readonly forMs: number;
  readonly faultModel: ChaosPhase;
  /** What the plan of faults and the choices of the clients come from. */
  readonly seed: string;
  /** The file that the histories of all clients are written to, as JSON lines. */
  readonly historyPath: string;
  /** The file that the plan is written to before it is carried out, and afterwards with what was done and when. */
  readonly planPath: string;
  /** Client processes. Default 6. */
  readonly clients?: number;
  /** What they reach the nodes by, in turns. Default `ioredis@5` alone. */
  readonly libraries?: readonly ChaosClient[];
  /** Servers of other kinds that the last nodes are, one each. Default none. */
  readonly others?: readonly OtherServer[];
  /** How many resources they contend for. Default 6. */
  readonly resources?: number;
  /** Time to live of all locks, ms. Default 1000. */
  readonly ttlMs?: number;
  /** Nodes, which are own server processes. Default 5. */
  readonly nodes?: number;
  /** Called about twice a second. */
  readonly onProgress?: (progress: ChaosProgress) => void;
  /** Ends the run early; everything is cleaned up all the same. */
  readonly signal?: AbortSignal;
}

/** How far a chaos run is. */
interface ChaosProgress {
  readonly doneMs: number;
  readonly forMs: number;
  /** Calls that have returned. */
  readonly calls: number;
  readonly faults: number;
}

/** What can be done to nodes, to the way to them, and to clients. */
export type ChaosFault =
  | 'kill'
  | 'restart at once'
  | 'stop'
  | 'lose requests'
  | 'lose replies'
  | 'lose both'
  | 'half-open'
  | 'delay'
  | 'cut'
  | 'clock rate'
  | 'clock step'
  | 'client stop'
  | 'client kill';

/** One fault of a plan. Times are whole ms; `atMs` counts from the start of the run. */
export interface PlannedFault {
  readonly kind: ChaosFault;
  readonly atMs: number;
  /** How long it lasts; 0 is an instant. */
  readonly forMs: number;
  /** The nodes it strikes, by their position; empty for a client. */
  readonly nodes: readonly number[];
  /** Which of the two ways to the node; left out is both. */
  readonly sides?: readonly number[];
  /** The place of the client process. */
  readonly client?: number;
  /** What a way adds to requests and replies, ms. */
  readonly requestMs?: number;
  readonly replyMs?: number;
  /** The new rate of a clock, or the step that it makes, ms. */
  readonly rate?: number;
  readonly stepMs?: number;
}

/** A fault of the plan as it was carried out: its position in the plan, and its times, ms from the start of the run. */
export interface PerformedFault {
  readonly fault: number;
  readonly begunMs: number;
  readonly endedMs: number;
}

/** What is written down of a run, so that it can be made again. */
export interface ChaosPlan {
  readonly schema: 'lockstep.chaos-plan/1';
  readonly seed: string;
  readonly faultModel: ChaosPhase;
  readonly clients: number;
  readonly resources: number;
  readonly ttlMs: number;
  readonly nodes: number;
  readonly libraries: readonly ChaosClient[];
  readonly others: readonly string[];
  readonly forMs: number;
  /** The same for the same values above. */
  readonly plan: readonly PlannedFault[];
  /** What the machine made of it; empty until the run has ended. */
  readonly performed: readonly PerformedFault[];
}

/** What came of it, but for what the histories say. */
export interface ChaosResult {
  readonly faultModel: ChaosPhase;
  readonly seed: string;
  /** Faults that the plan has, and how much later than planned they began: the median and the most, ms. */
  readonly planned: number;
  readonly lateMs: { readonly median: number; readonly most: number };
  readonly nodes: string;
  /** Whether nodes had clocks to skew. */
  readonly skewed: boolean;
  readonly clients: number;
  readonly libraries: readonly ChaosClient[];
  readonly ttlMs: number;
  readonly seconds: number;
  readonly interrupted: boolean;
  /** Calls that have returned, those of clients that were killed included. */
  readonly calls: number;
  /** Locks that were acquired, and by which clients. */
  readonly acquired: number;
  readonly acquiredBy: Readonly<Partial<Record<ChaosClient, number>>>;
  /** How often each fault struck. */
  readonly faults: Readonly<Partial<Record<ChaosFault, number>>>;
  /** The longest call, ms, and what no call may take. */
  readonly longestCallMs: number;
  readonly boundMs: number;
  /** Clients that had a call longer than that, or did not end when they were told to. */
  readonly stuck: readonly string[];
  /** Keys that were left on the nodes after every TTL was over; `null` if the run was interrupted before that. */
  readonly keysLeft: number | null;
}

/** What a client process is told. */
export interface ClientConfig {
  readonly client: string;
  readonly seed: string;
  readonly library: ChaosClient;
  readonly urls: readonly string[];
  readonly historyPath: string;
  readonly resources: readonly string[];
  readonly ttlMs: number;
}

/** What a client process tells. */
export interface ClientReport {
  readonly calls: number;
  readonly acquired: number;
  readonly longestCallMs: number;
}
