import { isFencing } from '../core/index.js';
import { hasFencingTokens, type Policy } from '../deviations/index.js';
import { type Action, ActionKind, actionOf } from './action.js';
import { Attempts } from './attempts.js';
import { type ExploredProperty, type ExploreScope, policyWithin } from './bounds.js';
import { copy } from './copy.js';
import { Interner } from './interner.js';
import { Commands, IDLE_LINK, Links } from './links.js';
import { CALL, EXTEND, Locks, PAUSE, RELEASE, RESUME } from './locks.js';
import { NodeSets } from './node-sets.js';
import { NOBODY, Nodes } from './nodes.js';

type Loss = typeof ActionKind.loseRequest | typeof ActionKind.loseReply;

/** Takes each successor, as it is written into {@link StateModel.next}. */
type OnSuccessor = (action: Action) => void;

/** What may still go wrong, packed into one number. */
const FAULTS = { crashes: 1, losses: 8, drift: 64, pauses: 512, rollbacks: 16_384 } as const;

/** Set beside them once somebody claimed what was over already, and once fencing tokens went back. */
const LATE_HOLD = 4096;
const BACKWARDS = 8192;

/**
 * A bounded world: clients that run the production lock, nodes that are the simulator's, links between them, and time in
 * ticks. A state is an array of small integers: the clients, the nodes, the links by client and node, what may
 * still go wrong, and, with fencing, the counters of claims. Each of the parts is a number that {@link Locks}, {@link Nodes} and {@link Links} know.
 */
export class StateModel {
  readonly bounds: ExploreScope;
  readonly policy: Policy;
  readonly commands: Commands = new Commands();
  readonly locks: Locks;
  readonly nodes: Nodes;
  readonly links: Links;
  /** Numbers in a state, and where its parts begin. The clients come first. */
  readonly size: number;
  /** By place in a state: what the number there counts. 0 clients, 1 nodes, 2 links, 3 what may still go wrong, 4 counters. */
  readonly kinds: readonly number[];
  readonly firstNode: number;
  readonly firstLink: number;
  readonly faultsAt: number;
  /** With fencing, the greatest counter that was claimed with; behind it, by client, that when it began to ask for its own. */
  readonly countersAt: number;
  readonly fenced: boolean;
  readonly counters: Interner<number> = new Interner<number>('fencing counters', 65_535);
  /** Where a change of nodes stands that waits: 0 before it begins, then one more than the ticks that are left to wait. */
  readonly changeAt: number;
  readonly sets: NodeSets;
  /** The successor in hand. */
  readonly next: Uint16Array;
  readonly attempts: Attempts;
  /** Leaves out what no property can tell apart: see {@link StateModel.successors}. */
  readonly reduced: boolean;
  private readonly property: ExploredProperty;

  /**
   * @param property - What it is exhausted for: what cannot violate that may be left out.
   * @param tokensPerClient - Attempts of one client that can be told apart. Default: as many as the bounds remember.
   */
  constructor(
    bounds: ExploreScope,
    property: ExploredProperty,
    reduced: boolean,
    tokensPerClient: number = bounds.retries + 2,
  ) {
    this.property = property;
    this.bounds = bounds;
    this.policy = policyWithin(bounds);
    this.reduced = reduced;
    this.locks = new Locks(bounds, this.policy, this.commands);
    this.nodes = new Nodes(this.policy, this.commands, tokensPerClient);
    this.links = new Links(bounds.link);
    this.sets = new NodeSets(bounds);
    this.firstNode = bounds.clients;
    this.firstLink = this.firstNode + bounds.nodes;
    this.faultsAt = this.firstLink + bounds.clients * bounds.nodes;
    this.countersAt = this.faultsAt + 1;
    this.fenced = hasFencingTokens(this.policy);
    this.changeAt = this.countersAt + (this.fenced ? 1 + bounds.clients : 0);
    this.size = this.changeAt + (this.sets.begins ? 1 : 0);
    const starts = [0, this.firstNode, this.firstLink, this.faultsAt, this.countersAt];
    this.kinds = Array.from({ length: this.size }, (_, at) => starts.findLastIndex((start) => start <= at));
    this.counterId(0);
    this.next = new Uint16Array(this.size);
    this.attempts = new Attempts(this);
  }

  /** Nobody has asked for anything yet. */
  initial(): Uint16Array {
    const state = new Uint16Array(this.size);
    let faults = 0;
    for (const fault of Object.keys(FAULTS) as (keyof typeof FAULTS)[]) faults += this.bounds[fault] * FAULTS[fault];
    state[this.faultsAt] = faults;
    for (const [client, { length }] of this.sets.sets.entries()) state[client] = this.locks.initial(length);
    return state;
  }

  /** How many clients believe that they hold the lock. */
  believers(state: Uint16Array): number {
    let count = 0;
    for (let client = 0; client < this.bounds.clients; client++) {
      if (this.tokenBelieved(state, client) !== NOBODY) count++;
    }
    return count;
  }

  /** The token behind which a client believes to hold the lock, as nodes store it. */
  tokenBelieved(state: Uint16Array, client: number): number {
    return this.nodes.tokenOf(client, this.locks.believes[state[client] ?? 0] ?? 0);
  }

  /** Whether somebody has claimed the lock when nothing was left of the claim. */
  claimedTooLate(state: Uint16Array): boolean {
    return ((state[this.faultsAt] ?? 0) & LATE_HOLD) !== 0;
  }

  /** Whether somebody claimed with a counter no greater than one that was claimed with before it began to ask. */
  wentBackwards(state: Uint16Array): boolean {
    return ((state[this.faultsAt] ?? 0) & BACKWARDS) !== 0;
  }

  /** Whether enough clients hold the lock or may come to, or may still get a fencing token, for a violation. */
  private isHopeful(state: Uint16Array): boolean {
    const { hopes, tries } = this.locks;
    const counted = this.property === 'fencing' ? tries : hopes;
    let rivals = this.property === 'mutual-exclusion' ? 2 : 1;
    for (let client = 0; client < this.bounds.clients; client++) if (counted[state[client] ?? 0]) rivals--;
    return rivals <= 0;
  }

  /** How many nodes store this token. */
  holders(state: Uint16Array, token: number): number {
    let count = 0;
    for (let node = this.firstNode; node < this.firstLink; node++) {
      if (this.nodes.at(state[node] ?? 0).token === token) count++;
    }
    return count;
  }

  /**
   * All that can happen next. Reduced, that is nothing where too few clients may ever hold the lock for a violation to come,
   * and where a message can have no effect, now or later, its arrival alone: it commutes with everything.
   */
  successors(state: Uint16Array, on: OnSuccessor): void {
    if (this.timers(state, on)) return;
    if (this.reduced) {
      if (!this.isHopeful(state)) return;
      if (this.stale(state, on)) return;
    }
    this.clients(state, on);
    this.messages(state, on);
    this.crashes(state, on);
    this.change(state, on);
    if (this.bounds.votes === 'asked') this.ticks(state, on);
  }

  /** A timer that is due comes before everything else of its tick. Timers of different clients do not meet. */
  private timers(state: Uint16Array, on: OnSuccessor): boolean {
    for (let client = 0; client < this.bounds.clients; client++) {
      const due = this.locks.due[state[client] ?? 0] ?? -1;
      if (due < 0 || !this.mayRetry(state, client)) continue;
      this.happens(state, client, this.locks.timerEvent(due));
      on(actionOf(ActionKind.timer, client, 0, due));
      return true;
    }
    return false;
  }

  /** With attempts without number, one waits until of the earlier ones few enough have left traces. */
  private mayRetry(state: Uint16Array, client: number): boolean {
    if (!this.bounds.forever || this.locks.at(state[client] ?? 0).lock.phase !== 'waiting') return true;
    return this.attempts.traced(state, client) <= this.bounds.retries;
  }

  private clients(state: Uint16Array, on: OnSuccessor): void {
    const { releases, extensions } = this.bounds;
    const pauses = this.left(state, FAULTS.pauses);
    for (let client = 0; client < this.bounds.clients; client++) {
      const id = state[client] ?? 0;
      const { lock, paused } = this.locks.at(id);
      const mayAsk = this.sets.mayAsk(client, state[this.changeAt] ?? 0);
      const calls = paused ? RESUME : lock.phase === 'idle' && mayAsk ? CALL : -1;
      if (calls >= 0) this.call(state, client, calls, on);
      if (paused) continue;
      const had = lock.phase === 'held' || lock.phase === 'lost';
      if (had && releases) this.call(state, client, RELEASE, on);
      if (had && mayAsk && !lock.extension.isOpen && lock.extension.number + 1 < extensions)
        this.call(state, client, EXTEND, on);
      if (pauses > 0 && lock.phase !== 'idle') {
        this.happens(state, client, PAUSE);
        this.spend(FAULTS.pauses);
        on(actionOf(ActionKind.call, client, 0, PAUSE));
      }
    }
  }

  /** A change of nodes begins, once. */
  private change(state: Uint16Array, on: OnSuccessor): void {
    if (!this.sets.begins || state[this.changeAt] !== 0) return;
    copy(state, this.next);
    this.next[this.changeAt] = this.sets.begun;
    for (const node of this.sets.off) {
      const at = this.firstNode + node;
      this.next[at] = this.nodes.crashed(state[at] ?? 0, null);
    }
    on(actionOf(ActionKind.change, 0, 0, 0));
  }

  private call(state: Uint16Array, client: number, event: number, on: OnSuccessor): void {
    this.happens(state, client, event);
    on(actionOf(ActionKind.call, client, 0, event));
  }

  /** An event of a client, with what it sends. */
  private happens(state: Uint16Array, client: number, event: number): void {
    const { next, locks, links } = this;
    copy(state, next);
    const id = state[client] ?? 0;
    next[client] = locks.after(id, event);
    if (locks.isTooLate(id, event)) next[this.faultsAt] = (next[this.faultsAt] ?? 0) | LATE_HOLD;
    if (this.fenced) this.count(client, id, event);
    for (const { node, command } of locks.sends(id, event)) {
      const at = this.linkAt(client, this.sets.nodeAt(client, node));
      next[at] = links.withRequest(next[at] ?? 0, command);
    }
  }

  /** Keeps the counters of claims. Reads: whether the client begins to ask for its own, or claims with it. */
  private count(client: number, id: number, event: number): void {
    const { next, locks, countersAt } = this;
    const own = countersAt + 1 + client;
    const asks = isFencing(locks.at(next[client] ?? 0).lock);
    const asked = isFencing(locks.at(id).lock);
    const greatest = this.counters.at(next[countersAt] ?? 0);
    if (asks && !asked) next[own] = next[countersAt] ?? 0;
    const claimed = locks.claimed(id, event);
    if (claimed >= 0) {
      const before = asked ? this.counters.at(next[own] ?? 0) : greatest;
      if (claimed <= before) next[this.faultsAt] = (next[this.faultsAt] ?? 0) | BACKWARDS;
      if (claimed > greatest) next[countersAt] = this.counterId(claimed);
    }
    if (!asks) next[own] = 0;
  }

  counterId(counter: number): number {
    return this.counters.intern(String(counter), counter);
  }

  private messages(state: Uint16Array, on: OnSuccessor): void {
    const { clients, nodes } = this.bounds;
    const losses = this.left(state, FAULTS.losses);
    for (let client = 0; client < clients; client++) {
      const { paused } = this.locks.at(state[client] ?? 0);
      for (let node = 0; node < nodes; node++) {
        const id = state[this.linkAt(client, node)] ?? IDLE_LINK;
        if (id === IDLE_LINK) continue;
        const { requests, replies } = this.links.at(id);
        for (let place = 0; place < requests.length; place++) {
          if (!this.links.canCome(requests, place)) continue;
          this.request(state, client, node, place, requests[place] ?? 0);
          on(actionOf(ActionKind.request, client, node, place));
          if (losses > 0) this.lose(state, client, node, place, ActionKind.loseRequest, on);
        }
        for (let place = 0; place < replies.length; place++) {
          if (!this.links.canCome(replies, place)) continue;
          if (!paused) {
            this.reply(state, client, node, place, replies[place] ?? 0);
            on(actionOf(ActionKind.reply, client, node, place));
          }
          if (losses > 0) this.lose(state, client, node, place, ActionKind.loseReply, on);
        }
      }
    }
  }

  /** A command arrives: it is carried out, or lost on a node that is down. */
  private request(state: Uint16Array, client: number, node: number, place: number, command: number): void {
    const { next, nodes, links } = this;
    const at = this.linkAt(client, node);
    const nodeId = state[this.firstNode + node] ?? 0;
    copy(state, next);
    const rest = links.withoutRequest(state[at] ?? 0, place);
    if (nodes.at(nodeId).down !== 0) {
      next[at] = rest;
      return;
    }
    next[this.firstNode + node] = nodes.execute(nodeId, client, command);
    next[at] = links.withReply(rest, nodes.answer(nodeId, client, command));
  }

  /** An answer arrives. */
  private reply(state: Uint16Array, client: number, node: number, place: number, reply: number): void {
    this.happens(state, client, this.locks.replyEvent(this.sets.placeOf(client, node), reply));
    const at = this.linkAt(client, node);
    // What the answer made the client send is behind it on the same link, in the other direction.
    const rest = this.links.withoutReply(this.next[at] ?? 0, place);
    this.next[at] = rest;
    if (this.reduced && rest === IDLE_LINK)
      this.next[client] = this.locks.settled(this.next[client] ?? 0, this.sets.placeOf(client, node));
  }

  private lose(state: Uint16Array, client: number, node: number, place: number, kind: Loss, on: OnSuccessor): void {
    const { next, links } = this;
    const at = this.linkAt(client, node);
    const id = state[at] ?? 0;
    copy(state, next);
    next[at] = kind === ActionKind.loseRequest ? links.withoutRequest(id, place) : links.withoutReply(id, place);
    this.spend(FAULTS.losses);
    on(actionOf(kind, client, node, place));
  }

  /** An answer that changes nothing and never will: it may as well have arrived. */
  private stale(state: Uint16Array, on: OnSuccessor): boolean {
    const { clients, nodes } = this.bounds;
    for (let client = 0; client < clients; client++) {
      const id = state[client] ?? 0;
      for (let node = 0; node < nodes; node++) {
        const { replies } = this.links.at(state[this.linkAt(client, node)] ?? IDLE_LINK);
        for (let place = 0; place < replies.length; place++) {
          if (
            !this.links.canCome(replies, place) ||
            !this.locks.isStale(id, this.sets.placeOf(client, node), replies[place] ?? 0)
          )
            continue;
          this.reply(state, client, node, place, replies[place] ?? 0);
          on(actionOf(ActionKind.reply, client, node, place));
          return true;
        }
      }
    }
    return false;
  }

  private crashes(state: Uint16Array, on: OnSuccessor): void {
    const crashes = this.left(state, FAULTS.crashes);
    const rollbacks = this.left(state, FAULTS.rollbacks);
    if (crashes + rollbacks === 0) return;
    for (let node = 0; node < this.bounds.nodes; node++) {
      const at = this.firstNode + node;
      const id = state[at] ?? 0;
      if (this.nodes.at(id).down !== 0) continue;
      if (crashes > 0) {
        copy(state, this.next);
        this.next[at] = this.nodes.crashed(id, this.bounds.restartDelay);
        this.spend(FAULTS.crashes);
        on(actionOf(ActionKind.crash, 0, node, 0));
      }
      if (rollbacks > 0) {
        copy(state, this.next);
        this.next[at] = this.nodes.rolledBack(id);
        this.spend(FAULTS.rollbacks);
        on(actionOf(ActionKind.rollBack, 0, node, 0));
      }
    }
  }

  /** Time goes on by a tick, for one process perhaps by none or by two. */
  private ticks(state: Uint16Array, on: OnSuccessor): void {
    this.tick(state);
    on(actionOf(ActionKind.tick, 0, 0, 0));
    if (this.left(state, FAULTS.drift) === 0) return;
    for (let process = 0; process < this.firstLink; process++) {
      for (const ticks of [0, 2]) {
        this.tick(state);
        this.next[process] = this.later(state, process, ticks);
        this.spend(FAULTS.drift);
        on(actionOf(ActionKind.drift, process, 0, ticks));
      }
    }
  }

  private tick(state: Uint16Array): void {
    copy(state, this.next);
    for (let process = 0; process < this.firstLink; process++) this.next[process] = this.later(state, process, 1);
    const left = state[this.changeAt] ?? 0;
    if (left > 1) this.next[this.changeAt] = left - 1;
  }

  private later(state: Uint16Array, process: number, ticks: number): number {
    const id = state[process] ?? 0;
    if (ticks === 0) return id;
    return process < this.firstNode ? this.locks.ticks(id, ticks) : this.nodes.after(id, ticks);
  }

  private left(state: Uint16Array, fault: number): number {
    return Math.floor((state[this.faultsAt] ?? 0) / fault) & 7;
  }

  private spend(fault: number): void {
    this.next[this.faultsAt] = (this.next[this.faultsAt] ?? 0) - fault;
  }

  linkAt(client: number, node: number): number {
    return this.firstLink + client * this.bounds.nodes + node;
  }
}
