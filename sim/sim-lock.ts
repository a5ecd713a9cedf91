import { type Command, initialState, type LockState, MOST_NODES, type NodeSet, resetState } from '../core/index.js';
import type { LockPlan } from '../scenarios/index.js';
import type { NodeList } from './node-list.js';
import type { Process } from './process.js';
import type { QueueEvent } from './queue.js';
import { type TrueTime, trueTime } from './time.js';

/** Timers of one lock by slot: the lock's own six, the release after the hold, then extensions, checks and writes. */
export const HOLD_SLOT = 6;

/** The first slot of timers that belong to what the plan does under the lock; those of `core` come before. */
export const FIRST_PLAN_SLOT = 7;

const NO_KEYS: readonly number[] = [];

const OPERATIONS: readonly Command['operation'][] = [
  'acquire',
  'extend',
  'release',
  'read-counter',
  'raise-counter',
  'join-counter',
];
/** No attempt has so many rounds. */
const MOST_ROUNDS = 2 ** 20;

/** One acquisition of one client, as its plan says: the lock of `core`, and the work done under it. */
export class SimLock {
  client: Process;
  /** From 0 per client. */
  number: number;
  plan: LockPlan;
  /** The nodes that its client knew of at the call. */
  list: NodeList;
  /** The resources, by the run's index, and the keys that stand for them on the nodes; from the call on. */
  resources: readonly number[] = NO_KEYS;
  keys: readonly number[] = NO_KEYS;
  /** Its client alone writes to it, in every step: a reader that keeps some of it has to copy that. */
  readonly state: LockState = initialState();
  /** Which life of its client asked for it; -1 before the call. */
  life = -1;
  /** The run's number of the token in use; 0 before the first attempt. */
  token = 0;
  /** Whether its client may send one command to a node more than once. */
  repeats = false;
  /** From the claim until the release is called, the client is told of the loss, or it dies. */
  believing = false;
  /** When the claim that its client was told of last ends by the client's clock, if that does not change. */
  endsAt: TrueTime = trueTime(0);
  /** Armed timers, by slot; an event of the queue that is not among them is stale. */
  readonly armed: (QueueEvent | null)[] = [null, null, null, null, null, null, null, null, null, null];
  /** By attempt and node: how many releases were sent; those that count. */
  private readonly releaseSends: number[] = [];
  private releaseSendCount = 0;
  /** Of other commands, where one was or may be sent to a node more than once. */
  private moreSends: Map<number, number> | null = null;

  constructor(client: Process, number: number, plan: LockPlan, list: NodeList) {
    this.list = list;
    this.client = client;
    this.number = number;
    this.plan = plan;
    this.makeSlots(plan);
  }

  private makeSlots({ extensions, writes }: LockPlan): void {
    const slots = FIRST_PLAN_SLOT + extensions.length + 2 * writes.length;
    while (this.armed.length < slots) this.armed.push(null);
  }

  /** None of its timers will fire. By a loop, because `fill` is a call out of the engine's own code. */
  disarm(): void {
    const { armed } = this;
    for (let slot = 0; slot < armed.length; slot++) armed[slot] = null;
  }

  /** As a new one. */
  reset(client: Process, number: number, plan: LockPlan, list: NodeList): void {
    this.client = client;
    this.number = number;
    this.plan = plan;
    this.list = list;
    this.resources = NO_KEYS;
    this.keys = NO_KEYS;
    resetState(this.state);
    this.life = -1;
    this.token = 0;
    this.repeats = false;
    this.believing = false;
    this.endsAt = trueTime(0);
    this.disarm();
    this.makeSlots(plan);
    this.releaseSendCount = 0;
    this.moreSends = null;
  }

  /** Whether the process that asked for it is dead. */
  get gone(): boolean {
    return this.life >= 0 && (this.client.down || this.life !== this.client.life);
  }

  /** The nodes behind the votes that its state counts. */
  get voters(): NodeSet {
    return this.list.at(this.state.votes.yes);
  }

  /** Whether its client believes at `now` that it holds the lock: it was granted, not released, and its clock says so. */
  believes(now: TrueTime): boolean {
    return this.believing && now < this.endsAt;
  }

  /** Its client was told of another deadline, or the clock of its client has changed. */
  findEnd(): void {
    const { clock } = this.client;
    this.endsAt = clock.when(this.state.hold.deadline, clock.changedAt);
  }

  /** Whether a command may be sent to one node more than once, so that it has to be counted how often it was. */
  countsSends({ operation }: Command): boolean {
    return operation === 'release' || this.repeats || this.list.repeats;
  }

  /** How often this command, which {@link countsSends} is about, has been sent to this node before. */
  countSend(command: Command, node: number): number {
    if (command.operation !== 'release') return this.countAgain(command, node, 0);
    const at = command.attempt * this.list.count + node;
    const { releaseSends } = this;
    while (this.releaseSendCount <= at) releaseSends[this.releaseSendCount++] = 0;
    const sent = releaseSends[at] ?? 0;
    releaseSends[at] = sent + 1;
    return sent;
  }

  /** The same for a command that the client's library sends again by itself. */
  countResend(command: Command, node: number): number {
    return command.operation === 'release' ? this.countSend(command, node) : this.countAgain(command, node, 1);
  }

  private countAgain(command: Command, node: number, before: number): number {
    const { operation, attempt, round } = command;
    const what =
      ((attempt * MOST_ROUNDS + round) * OPERATIONS.length + OPERATIONS.indexOf(operation)) * MOST_NODES + node;
    this.moreSends ??= new Map();
    const sent = this.moreSends.get(what) ?? before;
    this.moreSends.set(what, sent + 1);
    return sent;
  }
}
