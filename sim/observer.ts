import type { Answer, Command, NodeSet } from '../core/index.js';
import type { Fault } from '../scenarios/index.js';
import type { NodeList } from './node-list.js';
import type { Process } from './process.js';
import type { SimLock } from './sim-lock.js';
import type { TrueTime } from './time.js';

/** Why a key left a node: its owner's or somebody else's command, its expiry, or the node forgot it. */
export type KeyRemovalCause = 'deleted' | 'overwritten' | 'expired' | 'forgotten';

/** Why a client stopped believing that it holds a lock. */
export type HoldEndCause = 'released' | 'expired' | 'crashed';

/** A client as an observer sees it. */
interface WatchedClient extends Process {
  readonly list: NodeList;
  readonly locks: readonly SimLock[];
}

/** The world as an observer sees it. */
export interface WatchedWorld {
  readonly now: TrueTime;
  readonly nodes: readonly Process[];
  readonly clients: readonly WatchedClient[];
  /** Whether the run ended because time did not go on: many thousands of events, and hardly a microsecond passes. */
  readonly isStuck: boolean;
  /** The lock that uses a token, if any. */
  ownerOf(token: number): SimLock | null;
  /** The name of a resource, or of a key. */
  resourceOf(key: number): string;
}

/**
 * Sees a run from outside, with true time: what monitors are made of. Every method does nothing by default. Tokens are
 * the run's, dense from 1 in order of use; resources and nodes are indices.
 */
export class Observer {
  /** Messages that take longer than this one way are told of by {@link troubled}, µs. */
  slowUs: number = Number.POSITIVE_INFINITY;
  /** The run begins; nothing has happened yet. */
  begins(_world: WatchedWorld): void {}
  /** A client starts an attempt. */
  attempted(_lock: SimLock, _now: TrueTime): void {}
  /** A client begins to believe that it holds the lock. */
  claimed(_lock: SimLock, _now: TrueTime): void {}
  /** A client is about to be told of a new deadline. */
  extends(_lock: SimLock, _now: TrueTime): void {}
  /** A client was told of a new deadline. */
  extended(_lock: SimLock, _now: TrueTime): void {}
  /** A client stops believing. */
  ended(_lock: SimLock, _cause: HoldEndCause, _now: TrueTime): void {}
  /** An acquisition failed for good. */
  failed(_lock: SimLock, _reason: string, _now: TrueTime): void {}
  /** The release of a lock has returned. */
  released(_lock: SimLock, _now: TrueTime): void {}
  /** The network loses a message (not by a partition), copies it or holds it up; what there is of it arrives by `until`. */
  troubled(_until: TrueTime, _now: TrueTime): void {}
  /** A client sends a command to nodes; what becomes of it on the way is not known yet. */
  sent(_lock: SimLock, _to: NodeSet, _command: Command, _now: TrueTime): void {}
  /** A node is about to carry out a command. */
  executes(_node: number, _command: Command, _now: TrueTime): void {}
  /** A node carried out a command; the answer may still be lost. */
  executed(_node: number, _command: Command, _answer: Answer, _now: TrueTime): void {}
  /** A client hears the answer to a SET or a release, and is about to do what it does then. */
  hears(_lock: SimLock, _node: number, _command: Command, _answer: Answer): void {}
  /** It has done that. */
  answered(_lock: SimLock, _node: number, _command: Command, _now: TrueTime): void {}
  /** A node set a key. */
  keySet(_node: number, _key: number, _token: number, _now: TrueTime): void {}
  /** A node no longer holds a key; `by` is the token of the command that did it, or 0. */
  keyGone(_node: number, _key: number, _token: number, _cause: KeyRemovalCause, _by: number, _now: TrueTime): void {}
  /** A node's fencing counter changed; -1 if it was lost. */
  counterSet(_node: number, _counter: number, _now: TrueTime): void {}
  /** The clock of a client jumped or changed its rate. */
  clientClockChanged(_client: number, _now: TrueTime): void {}
  /** A client was told of other nodes, or a node took over as another's replica. */
  membershipChanged(_now: TrueTime): void {}
  /** A node has taken over from another, with the keys of that one. */
  tookOver(_node: number, _now: TrueTime): void {}
  /** The process of a node dies; with `power`, its machine goes off. */
  nodeDown(_node: number, _now: TrueTime, _power: boolean): void {}
  /** A node answers again; what it forgot was reported before. */
  nodeUp(_node: number, _now: TrueTime): void {}
  /** A fault is about to strike, on this node or client; -1 for none. */
  faultStrikes(_fault: Fault, _now: TrueTime, _node: number, _client: number): void {}
  /** A write of this lock reached the protected resource, which took it or refused it. */
  written(_lock: SimLock, _index: number, _accepted: boolean, _now: TrueTime): void {}
  /** The run is over. */
  finished(_now: TrueTime): void {}
}
