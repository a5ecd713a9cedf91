import {
  type Command,
  type FencingToken,
  forgetfulNodesTolerated,
  has,
  initialState,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  type LockState,
  later,
  localTime,
  members,
  NO_NODES,
  type NodeSet,
  type Outcome,
  oneNode,
  SOUND,
  size,
  step,
  type Timer,
  union,
  type Votes,
  votesOf,
} from '../../core/index.js';
import { Alarms } from './alarms.js';
import type { LockError, LockVotes } from './errors.js';
import type { Machine } from './machine.js';
import type { LockNode } from './node.js';
import { acquisitionFailed, extensionFailed, lockLost } from './outcomes.js';
import type { Pacer } from './pacer.js';
import { afterCork } from './socket.js';
import { type Reply, Request } from './wire.js';

/** What a release found on the nodes, as numbers of nodes. */
export interface ReleaseReport {
  /** Had the key and deleted it. */
  readonly released: number;
  /** Had no key of ours: it had expired, or never been there. */
  readonly alreadyGone: number;
  /** Not connected, answered with an error, or not in time: the key goes when its TTL ends. */
  readonly unreachable: number;
  /** Had not answered yet when a quorum had: they get the release all the same. */
  readonly unanswered: number;
}

/** What locks share: the nodes, and who says when the next round may go to them. */
export interface SharedNodes {
  readonly nodes: readonly LockNode[];
  readonly pacer: Pacer;
}

interface Waiter<T> {
  resolve(value: T): void;
  reject(reason: LockError): void;
}

/**
 * Drives one lock: feeds `step` with what happens, and carries out what it asks for. It has no opinion of its own on
 * anything that a lock has to decide.
 */
export class LockRun {
  readonly resources: readonly string[];
  readonly policy: LockPolicy;
  /** Set when the claim has ended by itself. */
  lost: LockError | null = null;
  /** Called once when that happens. */
  onLost: ((reason: LockError) => void) | null = null;

  /** The fencing token, once the lock is held, if the policy has them. */
  fence: FencingToken | null = null;

  readonly #nodes: readonly LockNode[];
  readonly #pacer: Pacer;
  readonly #machine: Machine;
  readonly #alarms: Alarms;
  #state: LockState = initialState();
  /** Nodes that were really sent the SET of this attempt. */
  #sent: NodeSet = NO_NODES;
  #unanswered = 0;
  /** Rounds that are not with the sockets yet, and when the last one was: node time-outs count from then. */
  #unwritten = 0;
  #writtenAt: LocalTime = localTime(0);
  /** Releases that wait for their turn, and the time-out that begins with them. */
  #deferred = 0;
  #deferredTimer: Timer | null = null;
  /** The last error of a node, or why the caller gave up: the cause to tell. */
  #cause: unknown;
  #acquisition: Waiter<void> | null = null;
  #extension: Waiter<void> | null = null;
  #extensionFailure: LockError | null = null;
  #afterRound: (() => void)[] = [];
  #release: { readonly promise: Promise<ReleaseReport>; settle(report: ReleaseReport): void } | null = null;
  #linger: NodeJS.Timeout | undefined;

  constructor({ nodes, pacer }: SharedNodes, policy: LockPolicy, resources: readonly string[], machine: Machine) {
    this.#nodes = nodes;
    this.#pacer = pacer;
    this.#machine = machine;
    this.#alarms = new Alarms(machine.clock, this);
    this.policy = policy;
    this.resources = resources;
  }

  /** Resolves when the lock is held. */
  acquire(ttlMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#acquisition = { resolve, reject };
      // Not `run`: a closure for each lock shows in a benchmark.
      if (this.#pacer.begins()) this.#start(ttlMs);
      else this.#pacer.wait(() => this.#start(ttlMs));
    });
  }

  #start(ttlMs: number): void {
    // Given up while it waited for its turn.
    if (this.#acquisition === null) return;
    const { clock, chance } = this.#machine;
    this.#feed({ type: 'acquire', now: clock.now(), nodes: this.#nodes.length, ttlMs, chance: chance.draw() });
  }

  /** Gives up an acquisition because of `reason`; no effect on a lock that is held. */
  abandon(reason: unknown): void {
    if (this.#acquisition === null) return;
    this.#cause = reason;
    if (this.#state.phase === 'idle') {
      const votes = votesOf(this.#state.votes, SOUND.quorum(this.#nodes.length, 'acquire'));
      this.#report({ type: 'failed', reason: 'abandoned', attempts: 0, votes });
    } else {
      this.#feed({ type: 'release', now: this.#machine.clock.now() });
    }
  }

  /** Resolves when the lock is held for `ttlMs` from now. Waits its turn behind an automatic extension. */
  extend(ttlMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pacer.run(() => this.#startExtension(ttlMs, { resolve, reject }));
    });
  }

  #startExtension(ttlMs: number, waiter: Waiter<void>): void {
    if (this.#state.extension.isOpen) {
      this.#afterRound.push(() => this.#startExtension(ttlMs, waiter));
      return;
    }
    this.#extension = waiter;
    this.#feed({ type: 'extend', now: this.#machine.clock.now(), ttlMs });
  }

  /** Gives the lock back. However often it is called, it is released once. */
  release(): Promise<ReleaseReport> {
    if (this.#release === null) {
      let settle: (report: ReleaseReport) => void = () => {};
      const promise = new Promise<ReleaseReport>((resolve) => {
        settle = resolve;
      });
      this.#release = { promise, settle };
      this.#feed({ type: 'release', now: this.#machine.clock.now() });
    }
    return this.#release.promise;
  }

  /** When the claim ends, ms since the epoch, by what the wall clock says now. */
  get expirationMs(): number {
    return this.#machine.clock.wallMsAt(this.#state.hold.deadline);
  }

  get token(): string {
    return String(this.#state.attempt.token);
  }

  /** What is left of the claim, µs; 0 when it has ended. The clock decides, even if the timer lags behind it. */
  remainingUs(): number {
    if (this.#state.phase !== 'held') return 0;
    const now = this.#machine.clock.now();
    if (now >= this.#state.hold.deadline) this.#feed({ type: 'timer', now, timer: 'expiry', chance: null });
    return Math.max(0, this.#state.hold.deadline - now);
  }

  get votes(): LockVotes {
    return this.votesFrom(votesOf(this.#state.votes, this.#state.electorate.needed));
  }

  get forgetfulNodesTolerated(): number {
    return forgetfulNodesTolerated(size(this.#state.votes.yes), this.#state.electorate.needed, this.#nodes.length);
  }

  get held(): boolean {
    return this.#state.phase === 'held' && this.#machine.clock.now() < this.#state.hold.deadline;
  }

  votesFrom({ granted, refused, failed, quorum }: Votes): LockVotes {
    const nodes = this.#nodes.length;
    const answered = union(granted, union(refused, failed));
    const unanswered: number[] = [];
    for (let node = 0; node < nodes; node++) if (!has(answered, node)) unanswered.push(node);
    return {
      granted: members(granted),
      refused: members(refused),
      failed: members(failed),
      unanswered,
      quorum,
      nodes,
    };
  }

  onReply(node: number, command: Command, { answer, counter }: Reply, error: Error | null, now: LocalTime): void {
    this.#pacer.onReply();
    this.#unanswered--;
    if (error !== null) this.#cause = error;
    this.#feed({ type: 'reply', now, node, command, answer, counter });
    if (this.#unanswered === 0 && this.#linger !== undefined) clearTimeout(this.#linger);
  }

  onTimer(timer: Timer, now: LocalTime): void {
    if (timer === 'retry' || timer === 'auto-extend') this.#pacer.run(() => this.#beginRound(timer));
    else if (timer === 'expiry' || !this.#isEarly(timer, now)) this.#feed({ type: 'timer', now, timer, chance: null });
  }

  #beginRound(timer: 'retry' | 'auto-extend'): void {
    // Extended by its owner while it waited for its turn.
    if (this.#alarms.isArmed(timer)) return;
    const { clock, chance } = this.#machine;
    this.#feed({ type: 'timer', now: clock.now(), timer, chance: timer === 'retry' ? chance.draw() : null });
  }

  /** Whether nodes have had less than the node time-out, because what they were sent was held back: then it begins anew. */
  #isEarly(timer: Timer, now: LocalTime): boolean {
    const timeoutUs = this.policy.settings.nodeTimeoutUs ?? 0;
    const at = later(this.#unwritten > 0 ? now : this.#writtenAt, timeoutUs);
    if (at <= now) return false;
    this.#alarms.arm(timer, at, now);
    return true;
  }

  onWritten(): void {
    this.#unwritten--;
    this.#writtenAt = this.#machine.clock.now();
  }

  #feed(event: LockEvent): void {
    const wasExtending = this.#state.extension.isOpen;
    const { state, effects } = step(this.policy, this.#state, event);
    this.#state = state;
    // Whoever hears of an outcome may call back at once, so everything else is done by then.
    let reports = 0;
    for (const effect of effects) {
      switch (effect.type) {
        case 'send':
          this.#sendInTurn(effect.to, effect.command, event.now);
          break;
        case 'arm':
          if (this.#deferred > 0 && effect.timer === 'release') this.#deferredTimer = 'release';
          else this.#alarms.arm(effect.timer, effect.at, event.now);
          break;
        case 'cancel':
          if (effect.timer === this.#deferredTimer) this.#deferredTimer = null;
          this.#alarms.cancel(effect.timer);
          break;
        case 'report':
          reports++;
          break;
      }
    }
    if (reports > 0) for (const effect of effects) if (effect.type === 'report') this.#report(effect.outcome);
    if (wasExtending && !state.extension.isOpen) this.#endRound();
  }

  /** A release waits for its turn; the other commands are in theirs already. */
  #sendInTurn(to: NodeSet, command: Command, now: LocalTime): void {
    this.#unwritten++;
    if (command.operation !== 'release') {
      this.#send(to, command, now);
      return;
    }
    if (this.#pacer.begins()) {
      this.#send(to, command, now);
      return;
    }
    this.#deferred++;
    this.#pacer.wait(() => this.#sendLate(to, command, this.#machine.clock.now()));
  }

  #sendLate(to: NodeSet, command: Command, now: LocalTime): void {
    this.#send(to, command, now);
    if (--this.#deferred > 0 || this.#deferredTimer === null) return;
    this.#alarms.arm(this.#deferredTimer, later(now, this.policy.settings.nodeTimeoutUs ?? 0), now);
    this.#deferredTimer = null;
  }

  #send(to: NodeSet, command: Command, now: LocalTime): void {
    // An attempt asks all nodes in one sending.
    if (command.operation === 'acquire') this.#sent = NO_NODES;
    const request = new Request(command, this.resources);
    for (const node of this.#nodes) {
      if (!has(to, node.index)) continue;
      this.#unanswered++;
      if (
        command.operation === 'release' &&
        command.token === this.#state.attempt.token &&
        !has(this.#sent, node.index)
      ) {
        // It never got the SET. A hung node would only pile up releases of nothing.
        node.decline(command, this);
      } else if (node.perform(request, this, now) && command.operation === 'acquire') {
        this.#sent = union(this.#sent, oneNode(node.index));
      }
    }
    if (afterCork(this)) return;
    this.#unwritten--;
    this.#writtenAt = now;
  }

  #report(outcome: Outcome): void {
    switch (outcome.type) {
      case 'acquired':
        this.fence = outcome.fence;
        this.#takeAcquisition()?.resolve();
        break;
      case 'failed':
        this.#alarms.clear();
        this.#keepAliveForCleanUp();
        this.#takeAcquisition()?.reject(acquisitionFailed(this, outcome, this.#cause));
        break;
      case 'extended':
        this.#extensionFailure = null;
        this.#takeExtension()?.resolve();
        break;
      case 'not-extended':
        this.#reportNotExtended(outcome);
        break;
      case 'lost':
        this.lost = lockLost(this, this.#extensionFailure);
        this.onLost?.(this.lost);
        break;
      case 'released':
        this.#reportReleased(outcome);
        break;
    }
  }

  #reportNotExtended(outcome: Outcome & { type: 'not-extended' }): void {
    const failure = extensionFailed(this, outcome, this.policy.settings.maxExtensions, this.#cause);
    const waiter = this.#takeExtension();
    // Nobody asked for an automatic one; why it failed is why the lock is lost, not that the end cut off the last try.
    if (waiter !== null) waiter.reject(failure);
    else if (outcome.reason !== 'too-late' || this.#extensionFailure === null) this.#extensionFailure = failure;
  }

  #reportReleased({ votes }: Outcome & { type: 'released' }): void {
    this.#alarms.clear();
    const released = size(votes.granted);
    const alreadyGone = size(votes.refused);
    const unreachable = size(votes.failed);
    const unanswered = this.#nodes.length - released - alreadyGone - unreachable;
    this.#release?.settle({ released, alreadyGone, unreachable, unanswered });
  }

  #takeAcquisition(): Waiter<void> | null {
    const waiter = this.#acquisition;
    this.#acquisition = null;
    return waiter;
  }

  #takeExtension(): Waiter<void> | null {
    const waiter = this.#extension;
    this.#extension = null;
    return waiter;
  }

  #endRound(): void {
    const waiting = this.#afterRound;
    this.#afterRound = [];
    for (const resume of waiting) resume();
  }

  /** A process that ends right after a failure still gives its clean-up the time of one answer. */
  #keepAliveForCleanUp(): void {
    const { nodeTimeoutUs } = this.policy.settings;
    if ((this.#unanswered === 0 && this.#unwritten === 0) || nodeTimeoutUs === null) return;
    this.#linger = setTimeout(() => {}, Math.ceil(nodeTimeoutUs / 1000));
  }
}
