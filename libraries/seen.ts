/** A call of a client that has not returned. */
export interface OpenCall {
  readonly client: string;
  readonly operation: 'acquire' | 'extend' | 'release';
  readonly sinceUs: number;
}

/** What clients have been seen to do. */
export interface Seen {
  /** Most nodes that one process was given, and that one has sent something to. */
  nodesGiven: number;
  nodesAsked: number;
  /** A lock was extended; a routine was given a signal. */
  extension: boolean;
  signal: boolean;
  /** A process has used a socket of its own. */
  sockets: boolean;
  /** What an acquisition was last rejected with. */
  rejection: unknown;
  /** What the first call was rejected with that connections of `nodes` do not support. */
  unsupported: Error | null;
  /** A call that has not returned because a node does not answer, of a client that leaves time-outs to its connections. */
  waitsWithNodes: OpenCall['operation'] | null;
  /** After so many events runs were broken off, whose rest was not judged; 0 if none was. */
  brokenOffAfter: number;
}

/** Nothing yet. */
export function noCalls(): Seen {
  const none = { nodesGiven: 0, nodesAsked: 0, extension: false, signal: false, sockets: false };
  return { ...none, rejection: undefined, unsupported: null, waitsWithNodes: null, brokenOffAfter: 0 };
}
