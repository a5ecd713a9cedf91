import {
  type Answer,
  type Command,
  type LocalTime,
  localTime,
  NO_NODES,
  type NodeSet,
  oneNode,
  union,
  without,
} from '../../core/index.js';
import type { LockRun, TrueTime } from '../../sim/index.js';

/** What was asked of the nodes with one token, and what they did about it, as seen from outside. */
export interface Use {
  readonly lock: LockRun;
  /** The attempt that uses it, from 0. */
  attempt: number;
  /** T1: the client's clock before the first command of the attempt. */
  startedAt: LocalTime;
  /** Nodes that were sent the SET of the attempt, and those that said yes to it. */
  asked: NodeSet;
  granted: NodeSet;
  /** The newest round of extension, or -1; when it began by the client's clock, and the nodes that said yes to it. */
  round: number;
  roundAt: LocalTime;
  roundTtlMs: number;
  extended: NodeSet;
  /** Nodes on which the token is stored: for one of the lock's resources, and for all of them. */
  holding: NodeSet;
  whole: NodeSet;
  /** By node: for how many resources; only of locks on several. */
  readonly keys: number[];
  /** Nodes that were sent a release, and those that carried one out. */
  released: NodeSet;
  emptied: NodeSet;
  /** The attempt failed, or its lock was given back. */
  over: boolean;
  /** Nodes that set its key after a release, and were sent none since it was over; see `cleanup.ts`, as the next three. */
  overtaken: NodeSet;
  /** Nodes of which its client has heard since it was over: they granted, a release found nothing, one deleted its key. */
  heardGrant: NodeSet;
  heardNothing: NodeSet;
  heardDeleted: NodeSet;
  /** When the TTL is over on every node that has set or lengthened its key, if their clocks are right; true time, µs. */
  keysUntil: number;
  /** When nobody has any use for its keys any more, true time, µs; `null` while somebody has. See `orphans.ts`. */
  orphanedAt: number | null;
}

/**
 * Keeps the books that several monitors look things up in: one entry for each token, made of what goes over the network
 * and not of what the client says about it.
 */
export class Ledger {
  private readonly uses: (Use | undefined)[] = [];
  /** By client and lock: a map by lock would have to give every lock a hash. */
  private readonly latest: (Use | undefined)[][] = [];

  of(token: number): Use | undefined {
    return this.uses[token];
  }

  /** All uses so far, by token; there are gaps. */
  get all(): readonly (Use | undefined)[] {
    return this.uses;
  }

  /** The attempt that a lock has begun last. */
  latestOf(lock: LockRun): Use | undefined {
    return this.latest[lock.client.index]?.[lock.number];
  }

  /** Opens the books for an attempt whose first command is being sent. */
  begin(lock: LockRun, token: number, attempt: number, now: TrueTime): Use {
    const before = this.uses[token];
    const use: Use = {
      lock,
      attempt,
      startedAt: lock.client.clock.read(now),
      asked: NO_NODES,
      granted: NO_NODES,
      round: -1,
      roundAt: localTime(0),
      roundTtlMs: 0,
      extended: NO_NODES,
      holding: before?.holding ?? NO_NODES,
      whole: before?.whole ?? NO_NODES,
      keys: before?.keys ?? [],
      released: NO_NODES,
      emptied: NO_NODES,
      over: false,
      overtaken: NO_NODES,
      heardGrant: NO_NODES,
      heardNothing: NO_NODES,
      heardDeleted: NO_NODES,
      keysUntil: before?.keysUntil ?? 0,
      orphanedAt: null,
    };
    while (this.uses.length <= token) this.uses.push(undefined);
    this.uses[token] = use;
    this.latestOfClient(lock.client.index)[lock.number] = use;
    return use;
  }

  private latestOfClient(client: number): (Use | undefined)[] {
    while (this.latest.length <= client) this.latest.push([]);
    return this.latest[client] ?? [];
  }

  /** Notes a command that is sent. */
  sent(use: Use, to: NodeSet, command: Command, now: TrueTime): void {
    switch (command.operation) {
      case 'acquire':
        use.asked = union(use.asked, to);
        break;
      case 'extend':
        use.round = command.round;
        use.roundAt = use.lock.client.clock.read(now);
        use.roundTtlMs = command.ttlMs;
        use.extended = NO_NODES;
        break;
      case 'release':
        use.released = union(use.released, to);
        break;
    }
  }

  executed(node: number, command: Command, answer: Answer, now: TrueTime): void {
    const { operation } = command;
    if (operation !== 'release' && (answer !== 'yes' || (operation !== 'acquire' && operation !== 'extend'))) return;
    const use = this.uses[command.token as number];
    if (use === undefined || command.attempt !== use.attempt) return;
    if (operation === 'release') {
      if (answer !== 'error') use.emptied = union(use.emptied, oneNode(node));
      return;
    }
    // A key is still there in the last millisecond of its TTL.
    use.keysUntil = Math.max(use.keysUntil, now + (command.ttlMs + 1) * 1000);
    if (operation === 'acquire') use.granted = union(use.granted, oneNode(node));
    else if (command.round === use.round) use.extended = union(use.extended, oneNode(node));
  }

  keySet(node: number, token: number): Use | undefined {
    const use = this.uses[token];
    if (use === undefined) return undefined;
    const it = oneNode(node);
    use.holding = union(use.holding, it);
    if (use.lock.keys.length === 1 || count(use, node, 1) === use.lock.keys.length) use.whole = union(use.whole, it);
    return use;
  }

  keyGone(node: number, token: number): Use | undefined {
    const use = this.uses[token];
    if (use === undefined) return undefined;
    const it = oneNode(node);
    use.whole = without(use.whole, it);
    if (use.lock.keys.length === 1 || count(use, node, -1) === 0) use.holding = without(use.holding, it);
    return use;
  }
}

/** Counts a node's keys, and says how many there are now. */
function count(use: Use, node: number, by: 1 | -1): number {
  while (use.keys.length <= node) use.keys.push(0);
  const keys = (use.keys[node] ?? 0) + by;
  use.keys[node] = keys;
  return keys;
}
