import { type Command, initialState, type LocalTime, type LockState } from '../core/index.js';
import type { LockPlan } from '../scenarios/index.js';
import type { Process } from './process.js';

/** One acquisition of one client, as its plan says: the lock of `core`, and the work done under it. */
export class LockRun {
  readonly client: Process;
  /** From 0 per client. */
  readonly number: number;
  readonly plan: LockPlan;
  /** The resources, by the run's index. */
  readonly keys: readonly number[];
  state: LockState = initialState();
  /** The run's number of the token in use; 0 before the first attempt. */
  token = 0;
  /** From the claim until the release is called, the client is told of the loss, or it dies. */
  believing = false;
  /** Deadlines of armed timers on the client's clock, by slot; generations tell stale events. */
  readonly armedAt: (LocalTime | null)[] = [null, null, null, null, null, null, null];
  readonly generations: number[] = [0, 0, 0, 0, 0, 0, 0];
  private readonly releaseSends: number[] = [0, 0, 0, 0, 0];

  constructor(client: Process, number: number, plan: LockPlan, keys: readonly number[]) {
    this.client = client;
    this.number = number;
    this.plan = plan;
    this.keys = keys;
  }

  /** How often this command has been sent to this node before; only releases are sent twice. */
  countSend(command: Command, node: number): number {
    if (command.operation !== 'release') return 0;
    const at = command.attempt * this.state.nodes + node;
    const sent = this.releaseSends[at] ?? 0;
    this.releaseSends[at] = sent + 1;
    return sent;
  }
}
