import {
  type AttemptRandomness,
  type Command,
  chanceFor,
  type DraftState,
  drive,
  type Environment,
  has,
  initialState,
  LONGEST_US,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  later,
  localTime,
  NO_NODES,
  type NodeSet,
  type Outcome,
  oneNode,
  type Timer,
  union,
  without,
} from '../../core/index.js';
import { LockTimers } from './alarms.js';
import type { LockRuntime } from './machine.js';
import type { Pacer } from './pacer.js';
import { type Reply, Request } from './request.js';
import { afterCork } from './socket.js';

/** The longest that a lock can be valid, 142 years, ms. Keys may live longer. */
export const LONGEST_TTL_MS: number = Math.floor(LONGEST_US / 1000);

/** Who is told what a node answered, and when. `error` is given where the answer is `error` and somebody said why. */
export interface Receiver {
  onReply(node: number, command: Command, reply: Reply, error: Error | null, now: LocalTime): void;
}

/** A node as locks see it. */
export interface Voter {
  /** Its place among the nodes of the lock. */
  readonly index: number;
  /** Sends a command, or has it answered with `error` if that is not possible; returns whether it was sent. */
  perform(request: Request, receiver: Receiver, now: LocalTime): boolean;
  /** Has a command answered with `error` that is not sent. */
  decline(command: Command, receiver: Receiver): void;
}

/** What locks share: the nodes, and who says when the next round may go to them. */
export interface SharedNodes {
  readonly nodes: readonly Voter[];
  readonly pacer: Pacer;
}

/**
 * Drives one lock on nodes that are there: hands it what happens, and carries out what it asks for. It has no opinion of its
 * own on anything that a lock has to decide. The lock for production and the clients of a replay are made of it.
 */
export abstract class LockDriver implements Environment<LockDriver>, Receiver {
  readonly policy: LockPolicy;
  /** The keys on the nodes. */
  readonly resources: readonly string[];
  readonly state: DraftState = initialState();
  protected readonly machine: LockRuntime;
  protected readonly pacer: Pacer;
  /** The last error of a node, or why the caller gave up: the cause to tell. */
  protected cause: unknown;
  readonly #nodes: readonly Voter[];
  readonly #alarms: LockTimers;
  /** Nodes that the SET of this attempt could not be sent to, nor an extension that heals. */
  #missed: NodeSet = NO_NODES;
  #unanswered = 0;
  /** Pauses that were cut short. */
  #hurried = 0;
  /** The TTL that its owner asked for last, ms. */
  #askedMs = 0;
  /** The longest TTL that its keys may have been given, ms. */
  #longestMs = 0;
  /** Rounds that are not with the sockets yet, and when the last of them was: node time-outs count from then. */
  #unwritten = 0;
  #writtenAt: LocalTime = localTime(-LONGEST_US);
  /** Releases that wait for their turn, and the time-out that begins with them. */
  #deferred = 0;
  #deferredTimer: Timer | null = null;
  /** What the owner has not been told yet. */
  #outcomes: Outcome[] = [];
  #linger: NodeJS.Timeout | undefined;

  constructor({ nodes, pacer }: SharedNodes, policy: LockPolicy, resources: readonly string[], machine: LockRuntime) {
    this.#nodes = nodes;
    this.pacer = pacer;
    this.machine = machine;
    this.#alarms = new LockTimers(machine.clock, this);
    this.policy = policy;
    this.resources = resources;
  }

  /** The owner is told, who may call back at once. */
  protected abstract onOutcome(outcome: Outcome, now: LocalTime): void;

  /** How many nodes there are. */
  get nodes(): number {
    return this.#nodes.length;
  }

  protected start(ttlMs: number): void {
    const now = this.machine.clock.now();
    this.feed({ type: 'acquire', now, nodes: this.nodes, ttlMs: this.counted(ttlMs), chance: this.draw(this, 0) });
  }

  /** Begins with a pause, as if the first attempt had been refused. */
  protected startAfterPause(ttlMs: number, now: LocalTime): void {
    this.#askedMs = ttlMs;
    this.#alarms.arm('retry', this.#afterPause(now), now);
  }

  /** As much of a TTL as the lock counts. Its keys get the whole of it. */
  protected counted(ttlMs: number): number {
    this.#askedMs = ttlMs;
    return Math.min(ttlMs, LONGEST_TTL_MS);
  }

  #whole(command: Command): Command {
    if (command.ttlMs < LONGEST_TTL_MS) return command;
    return { ...command, ttlMs: Math.max(command.ttlMs, this.#askedMs) };
  }

  /** A listener may call back as soon as it hears of an outcome, so everything else is done by then. */
  protected feed(event: LockEvent): void {
    drive(this, this, event);
    while (this.#outcomes.length > 0) this.onOutcome(this.#outcomes.shift() as Outcome, event.now);
  }

  onReply(node: number, command: Command, { answer, counter }: Reply, error: Error | null, now: LocalTime): void {
    this.pacer.onReply();
    this.#unanswered--;
    if (error !== null) this.cause = error;
    this.feed({ type: 'reply', now, node, command, answer, counter });
    if (this.#unanswered === 0 && this.#linger !== undefined) clearTimeout(this.#linger);
  }

  onTimer(timer: Timer, now: LocalTime): void {
    if (timer === 'retry' && !this.mayTry()) this.#alarms.arm('retry', this.#afterPause(now), now);
    else if (timer === 'retry' || timer === 'auto-extend') this.pacer.run(() => this.#beginRound(timer));
    else if (timer === 'expiry' || !this.#isEarly(timer, now)) this.#fire(timer, now);
  }

  #fire(timer: Timer, now: LocalTime): void {
    this.feed({ type: 'timer', now, timer, chance: chanceFor(this, this, timer) });
  }

  /** Whether the next attempt may begin as its pause ends; if not, it pauses again. */
  protected mayTry(): boolean {
    return true;
  }

  #afterPause(now: LocalTime): LocalTime {
    const { rules, settings } = this.policy;
    return later(now, rules.pause(settings, this.machine.chance.draw().jitterPpm));
  }

  /**
   * Begins the next attempt now, if the lock pauses before one. Where attempts are limited, at most every second pause is cut
   * short, so that at least half of the time stays that its owner is willing to wait.
   */
  hurry(): boolean {
    if (!this.#alarms.isArmed('retry')) return false;
    if (this.policy.settings.tries !== null && 2 * this.#hurried > this.state.attempt.number) return false;
    this.#hurried++;
    this.#alarms.cancel('retry');
    this.pacer.run(() => this.#beginRound('retry'));
    return true;
  }

  #beginRound(timer: 'retry' | 'auto-extend'): void {
    // Extended by its owner while it waited for its turn.
    if (this.#alarms.isArmed(timer)) return;
    if (this.state.phase === 'idle') this.start(this.#askedMs);
    else this.#fire(timer, this.machine.clock.now());
  }

  /** Whether nodes have had less than the node time-out, because what they were sent was held back: then it begins again. */
  #isEarly(timer: Timer, now: LocalTime): boolean {
    const timeoutUs = this.policy.settings.nodeTimeoutUs ?? 0;
    const at = later(this.#isHeldBack ? now : this.#writtenAt, timeoutUs);
    if (at <= now) return false;
    this.#alarms.arm(timer, at, now);
    return true;
  }

  get #isHeldBack(): boolean {
    return this.#unwritten + this.#deferred > 0;
  }

  onWritten(): void {
    this.#unwritten--;
    this.#writtenAt = this.machine.clock.now();
  }

  draw(_lock: LockDriver, _attempt: number): AttemptRandomness {
    return this.machine.chance.draw();
  }

  /** A release waits for its turn; the other commands are in theirs already. */
  send(_lock: LockDriver, to: NodeSet, command: Command, now: LocalTime): void {
    if (command.operation !== 'release' || this.pacer.begins()) this.#sendNow(to, command, now);
    else if (!this.#isOfAttempt(command)) this.pacer.wait(() => this.#sendNow(to, command, this.machine.clock.now()));
    else {
      this.#deferred++;
      this.pacer.wait(() => this.#sendDeferred(to, command, this.machine.clock.now()));
    }
  }

  /** The late release of an attempt before has no time-out, and must put off none. */
  #isOfAttempt({ token }: Command): boolean {
    return token === this.state.attempt.token;
  }

  #sendDeferred(to: NodeSet, command: Command, now: LocalTime): void {
    this.#sendNow(to, command, now);
    if (--this.#deferred > 0 || this.#deferredTimer === null) return;
    this.#alarms.arm(this.#deferredTimer, later(now, this.policy.settings.nodeTimeoutUs ?? 0), now);
    this.#deferredTimer = null;
  }

  #sendNow(to: NodeSet, counted: Command, now: LocalTime): void {
    const command = this.#whole(counted);
    const { operation } = command;
    const request = new Request(command, this.resources, this.policy.rules, command.ttlMs < this.#longestMs);
    this.#longestMs = Math.max(this.#longestMs, command.ttlMs);
    const isOfAttempt = this.#isOfAttempt(command);
    if (operation === 'acquire') this.#missed = without(this.#missed, to);
    for (const node of this.#nodes) {
      if (!has(to, node.index)) continue;
      this.#unanswered++;
      // It never got the SET. A hung node would only pile up releases of nothing.
      if (operation === 'release' && isOfAttempt && has(this.#missed, node.index)) node.decline(command, this);
      else if (!node.perform(request, this, now)) {
        if (operation === 'acquire') this.#missed = union(this.#missed, oneNode(node.index));
      } else if (operation === 'extend' && this.policy.rules.scripts.extend.onto === 'heals') {
        this.#missed = without(this.#missed, oneNode(node.index));
      }
    }
    if (isOfAttempt && afterCork(this)) this.#unwritten++;
  }

  arm(_lock: LockDriver, timer: Timer, at: LocalTime, now: LocalTime): void {
    if (this.#deferred > 0 && timer === 'release') this.#deferredTimer = 'release';
    else this.#alarms.arm(timer, at, now);
  }

  cancel(_lock: LockDriver, timer: Timer): void {
    if (timer === this.#deferredTimer) this.#deferredTimer = null;
    this.#alarms.cancel(timer);
  }

  report(_lock: LockDriver, outcome: Outcome): void {
    this.#outcomes.push(outcome);
    if (outcome.type !== 'failed' && outcome.type !== 'released') return;
    this.#alarms.rest();
    if (outcome.type === 'failed') this.#keepAliveForCleanUp();
  }

  /** A process that ends right after a failure still gives its clean-up the time of one answer. */
  #keepAliveForCleanUp(): void {
    const { nodeTimeoutUs } = this.policy.settings;
    if ((this.#unanswered === 0 && !this.#isHeldBack) || nodeTimeoutUs === null) return;
    this.#linger = setTimeout(() => {}, Math.ceil(nodeTimeoutUs / 1000));
  }

  /** Nothing happens to it by itself any more. */
  protected stop(): void {
    this.#alarms.clear();
    clearTimeout(this.#linger);
  }
}
