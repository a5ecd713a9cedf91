import {
  type Answer,
  type Command,
  type LocalTime,
  NO_NODES,
  type NodeSet,
  oneNode,
  union,
  without,
} from '../../core/index.js';
import type { Policy } from '../../deviations/index.js';
import type { SimLock, TrueTime } from '../../sim/index.js';
import { empty } from './remove.js';

/** What was asked of the nodes with one token, and what they did about it, as seen from outside. */
export interface AttemptRecord {
  lock: SimLock;
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
  /** Nodes that have a key of it: with its token, and not taken over by a later attempt with the same token. */
  holding: NodeSet;
  /** Nodes on which its token is stored for all of the lock's resources, no matter which attempt did that. */
  whole: NodeSet;
  /** The same by resource: of locks on several, and where a later attempt has taken keys over; else `null`. */
  parts: readonly Part[] | null;
  /** Nodes that were sent a release, and those that carried one out. */
  released: NodeSet;
  emptied: NodeSet;
  /** The attempt failed, or its lock was released. */
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

/** What is stored of one resource. */
interface Part {
  readonly key: number;
  nodes: NodeSet;
  /** Whether a later attempt has taken its keys over. */
  taken: boolean;
}

/**
 * Keeps the books that several monitors look things up in: one entry for each token, made of what goes over the network
 * and not of what the client says about it. Where several locks have one token, each has an entry, and a key is that of
 * the last attempt that began to ask for it with the token.
 */
export class AttemptRegistry {
  private readonly uses: (AttemptRecord | undefined)[] = [];
  /** By token: those that other locks began with it before, the last one last. */
  private readonly earlier: (AttemptRecord[] | undefined)[] = [];
  /** By client and lock: a map by lock would have to give every lock a hash. */
  private readonly latest: (AttemptRecord | undefined)[][] = [];
  /** Whose command it is: kept where a token does not tell. */
  private senders: Map<Command, AttemptRecord> | null;
  /** Those of this run, and behind them those of earlier ones, to be used again. */
  private readonly records: AttemptRecord[] = [];
  private recordCount = 0;

  constructor(policy: Policy) {
    this.senders = sendersFor(policy);
  }

  /** For another run. */
  reset(policy: Policy): void {
    this.senders = sendersFor(policy);
    this.recordCount = 0;
    empty(this.uses);
    empty(this.earlier);
    for (const latest of this.latest) empty(latest);
  }

  /** Whether several locks may have one token. */
  get shares(): boolean {
    return this.senders !== null;
  }

  /** What a lock uses a token for. */
  of(token: number, lock: SimLock): AttemptRecord | undefined {
    const use = this.uses[token];
    return use === undefined || use.lock === lock ? use : this.earlier[token]?.find((it) => it.lock === lock);
  }

  /** The attempt that began with a token last. */
  newestOf(token: number): AttemptRecord | undefined {
    return this.uses[token];
  }

  /** All locks' uses of a token but the newest. */
  earlierOf(token: number): readonly AttemptRecord[] {
    return this.earlier[token] ?? NONE;
  }

  /** All uses so far; there are gaps. */
  get all(): readonly (AttemptRecord | undefined)[] {
    return this.earlier.length === 0 ? this.uses : [...this.uses, ...this.earlier.flatMap((uses) => uses ?? [])];
  }

  /** The attempt that a lock has begun last. */
  latestOf(lock: SimLock): AttemptRecord | undefined {
    return this.latest[lock.client.index]?.[lock.number];
  }

  /** Opens the books for an attempt whose first command is being sent. */
  begin(lock: SimLock, token: number, attempt: number, now: TrueTime): AttemptRecord {
    const before = this.uses[token];
    const startedAt = lock.client.clock.read(now);
    const use = this.record(lock, attempt, startedAt);
    use.parts = lock.keys.length === 1 ? null : partsOf(lock, NO_NODES);
    if (before !== undefined) this.takeOver(use, before, token);
    while (this.uses.length <= token) this.uses.push(undefined);
    this.uses[token] = use;
    this.latestOfClient(lock.client.index)[lock.number] = use;
    return use;
  }

  /** A record in which nothing has happened. */
  private record(lock: SimLock, attempt: number, startedAt: LocalTime): AttemptRecord {
    const { records } = this;
    const index = this.recordCount++;
    if (index >= records.length) records.push(newRecord(lock, startedAt));
    const use = records[index] as AttemptRecord;
    use.lock = lock;
    use.attempt = attempt;
    use.startedAt = startedAt;
    use.asked = NO_NODES;
    use.granted = NO_NODES;
    use.round = -1;
    use.roundAt = startedAt;
    use.roundTtlMs = 0;
    use.extended = NO_NODES;
    use.holding = NO_NODES;
    use.whole = NO_NODES;
    use.parts = null;
    use.released = NO_NODES;
    use.emptied = NO_NODES;
    use.over = false;
    use.overtaken = NO_NODES;
    use.heardGrant = NO_NODES;
    use.heardNothing = NO_NODES;
    use.heardDeleted = NO_NODES;
    use.keysUntil = 0;
    use.orphanedAt = null;
    return use;
  }

  /** Keys with its token are those of an attempt that begins. */
  private takeOver(use: AttemptRecord, newest: AttemptRecord, token: number): void {
    const earlier = [...this.earlierOf(token), newest];
    for (const it of [use, ...earlier]) it.parts ??= partsOf(it.lock, it.whole);
    for (const part of use.parts ?? []) {
      for (const other of earlier) {
        const same = other.parts?.find(({ key }) => key === part.key);
        if (same === undefined) continue;
        part.nodes = same.nodes;
        same.taken = true;
        use.keysUntil = Math.max(use.keysUntil, other.keysUntil);
      }
    }
    for (const it of [use, ...earlier]) sum(it);
    const others = earlier.filter((it) => it.lock !== use.lock);
    if (others.length > 0 || this.earlier[token] !== undefined) {
      while (this.earlier.length <= token) this.earlier.push(undefined);
      this.earlier[token] = others;
    }
  }

  private latestOfClient(client: number): (AttemptRecord | undefined)[] {
    while (this.latest.length <= client) this.latest.push([]);
    return this.latest[client] ?? [];
  }

  /** The attempt that sent a command. */
  senderOf(command: Command): AttemptRecord | undefined {
    const use = this.senders === null ? this.uses[command.token as number] : this.senders.get(command);
    return use?.attempt === command.attempt ? use : undefined;
  }

  /** Notes a command that is sent. */
  sent(use: AttemptRecord, to: NodeSet, command: Command, now: TrueTime): void {
    this.senders?.set(command, use);
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
    const use = this.senderOf(command);
    if (use === undefined) return;
    if (operation === 'release') {
      if (answer !== 'error') use.emptied = union(use.emptied, oneNode(node));
      return;
    }
    // A key is still there in the last millisecond of its TTL.
    use.keysUntil = Math.max(use.keysUntil, now + (command.ttlMs + 1) * 1000);
    if (operation === 'acquire') use.granted = union(use.granted, oneNode(node));
    else if (command.round === use.round) use.extended = union(use.extended, oneNode(node));
  }

  /** A node stores a token under a key. The answer is whose key it is. */
  keySet(node: number, key: number, token: number): AttemptRecord | undefined {
    return this.keyChanged(node, key, token, true);
  }

  keyGone(node: number, key: number, token: number): AttemptRecord | undefined {
    return this.keyChanged(node, key, token, false);
  }

  private keyChanged(node: number, key: number, token: number, isThere: boolean): AttemptRecord | undefined {
    const use = this.uses[token];
    if (use === undefined) return undefined;
    if (use.parts === null) {
      const it = oneNode(node);
      use.whole = isThere ? union(use.whole, it) : without(use.whole, it);
      use.holding = use.whole;
      return use;
    }
    let owner: AttemptRecord | undefined;
    for (const it of [...this.earlierOf(token), use]) {
      const part = it.parts?.find((one) => one.key === key);
      if (part === undefined) continue;
      part.nodes = isThere ? union(part.nodes, oneNode(node)) : without(part.nodes, oneNode(node));
      sum(it);
      owner = it;
    }
    return owner;
  }
}

const NONE: readonly AttemptRecord[] = [];

function sendersFor({ habits: { tokenFrom, tokenPerProcess } }: Policy): Map<Command, AttemptRecord> | null {
  return tokenFrom !== 'random' || tokenPerProcess ? new Map() : null;
}

function newRecord(lock: SimLock, startedAt: LocalTime): AttemptRecord {
  return {
    lock,
    attempt: 0,
    startedAt,
    asked: NO_NODES,
    granted: NO_NODES,
    round: -1,
    // Of one kind with the times that come: the engine gives a record another shape where a small integer becomes a large one.
    roundAt: startedAt,
    roundTtlMs: 0,
    extended: NO_NODES,
    holding: NO_NODES,
    whole: NO_NODES,
    parts: null,
    released: NO_NODES,
    emptied: NO_NODES,
    over: false,
    overtaken: NO_NODES,
    heardGrant: NO_NODES,
    heardNothing: NO_NODES,
    heardDeleted: NO_NODES,
    keysUntil: 0,
    orphanedAt: null,
  };
}

function partsOf({ keys }: SimLock, nodes: NodeSet): Part[] {
  return keys.map((key) => ({ key, nodes, taken: false }));
}

/** Nodes with any of its keys, and with all of its resources. */
function sum(use: AttemptRecord): void {
  const parts = use.parts ?? [];
  use.holding = parts.reduce((nodes, part) => (part.taken ? nodes : union(nodes, part.nodes)), NO_NODES);
  use.whole = parts.map((part) => part.nodes).reduce((a, b) => (a & b) as NodeSet);
}
