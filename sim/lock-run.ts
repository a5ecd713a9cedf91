import { type Command, initialState, type LockState } from '../core/index.js';
import type { LockPlan } from '../scenarios/index.js';
import type { Process } from './process.js';
import type { QueueEvent } from './queue.js';

/** Timers of one lock by slot: the lock's own six, the release after the hold, then extensions, checks and writes. */
export const HOLD_SLOT = 6;
export const FIRST_PLAN_SLOT = 7;

/** One acquisition of one client, as its plan says: the lock of `core`, and the work done under it. */
export class LockRun {
  readonly client: Process;
  /** From 0 per client. */
  readonly number: number;
  readonly plan: LockPlan;
  /** The resources, by the run's index; from the call on. */
  keys: readonly number[] = [];
  state: LockState = initialState();
  /** Which life of its client asked for it; -1 before the call. */
  life = -1;
  /** The run's number of the token in use; 0 before the first attempt. */
  token = 0;
  /** From the claim until the release is called, the client is told of the loss, or it dies. */
  believing = false;
  /** Armed timers, by slot; an event of the queue that is not among them is stale. */
  readonly armed: (QueueEvent | null)[] = [];
  private readonly releaseSends: number[] = [];

  constructor(client: Process, number: number, plan: LockPlan) {
    this.client = client;
    this.number = number;
    this.plan = plan;
    const slots = FIRST_PLAN_SLOT + plan.extensions.length + 2 * plan.writes.length;
    while (this.armed.length < slots) this.armed.push(null);
  }

  /** Whether the process that asked for it is dead. */
  get gone(): boolean {
    return this.life >= 0 && (this.client.down || this.life !== this.client.life);
  }

  /** How often this command has been sent to this node before; only releases are sent twice. */
  countSend(command: Command, node: number): number {
    if (command.operation !== 'release') return 0;
    const at = command.attempt * this.state.nodes + node;
    while (this.releaseSends.length <= at) this.releaseSends.push(0);
    const sent = this.releaseSends[at] ?? 0;
    this.releaseSends[at] = sent + 1;
    return sent;
  }
}
