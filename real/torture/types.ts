/** Whether the nodes keep to what the lock assumes, or restart at once without what they knew. */
export type Weather = 'within' | 'outside';

/** How clients are tortured. */
export interface TortureOptions {
  /** How long, ms, without starting and cleaning up. */
  readonly forMs: number;
  readonly weather: Weather;
  /** The file that the histories of all clients are written to, as JSON lines. */
  readonly historyPath: string;
  /** Client processes. Default 6. */
  readonly clients?: number;
  /** How many resources they contend for. Default 6. */
  readonly resources?: number;
  /** Time to live of all locks, ms. Default 1000. */
  readonly ttlMs?: number;
  /** Nodes, which are own server processes. Default 5. */
  readonly nodes?: number;
  /** Called about twice a second. */
  readonly onProgress?: (progress: TortureProgress) => void;
  /** Ends the run early; everything is cleaned up all the same. */
  readonly signal?: AbortSignal;
}

/** How far a torture is. */
export interface TortureProgress {
  readonly doneMs: number;
  readonly forMs: number;
  /** Calls that have returned. */
  readonly calls: number;
  readonly faults: number;
}

/** What can be done to nodes, to the way to them, and to clients. */
export type Torment =
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

/** What came of it, but for what the histories say. */
export interface TortureResult {
  readonly weather: Weather;
  readonly nodes: string;
  /** Whether nodes had clocks to skew. */
  readonly skewed: boolean;
  readonly clients: number;
  readonly ttlMs: number;
  readonly seconds: number;
  readonly interrupted: boolean;
  /** Calls that have returned, those of clients that were killed included. */
  readonly calls: number;
  /** Locks that were acquired. */
  readonly acquired: number;
  /** How often each fault struck. */
  readonly faults: Readonly<Partial<Record<Torment, number>>>;
  /** The longest call, ms, and what no call may take. */
  readonly longestCallMs: number;
  readonly boundMs: number;
  /** Clients that had a call longer than that, or did not end when they were told to. */
  readonly stuck: readonly string[];
  /** Keys that were left on the nodes after every TTL was over; `null` if the run was interrupted before that. */
  readonly keysLeft: number | null;
}

/** What a client process is told. */
export interface ClientOrders {
  readonly client: string;
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
