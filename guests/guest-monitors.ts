import { Monitors } from '../properties/index.js';
import type { Fault } from '../scenarios/index.js';
import { type EndCause, type LockRun, nodeName, type TrueTime } from '../sim/index.js';

/** What hears of the machines that nodes run on. */
interface Machines {
  nodeDied(node: number, power: boolean): void;
  nodeIsBack(node: number): void;
}

/** The monitors of a run of guests. */
export class GuestMonitors extends Monitors {
  private readonly givenBack = new Set<LockRun>();
  private readonly withoutPower = new Set<string>();
  /** Hears of processes of nodes that die, and of nodes that are back. */
  machines: Machines | null = null;

  override faultStrikes(fault: Fault, now: TrueTime): void {
    if (fault.kind === 'crash' && fault.power === true) this.withoutPower.add(fault.node);
    super.faultStrikes(fault, now);
  }

  override nodeDown(node: number, now: TrueTime): void {
    this.machines?.nodeDied(node, this.withoutPower.delete(nodeName(node)));
    super.nodeDown(node, now);
  }

  override nodeUp(node: number, now: TrueTime): void {
    this.machines?.nodeIsBack(node);
    super.nodeUp(node, now);
  }

  override ended(lock: LockRun, cause: EndCause, now: TrueTime): void {
    if (cause === 'released' && lock.client.clock.read(now) < lock.state.hold.deadline) this.givenBack.add(lock);
    super.ended(lock, cause, now);
  }

  /** A client is not to blame for a write that is on its way when the schedule gives back a lock that it still holds. */
  override written(lock: LockRun, index: number, accepted: boolean, now: TrueTime): void {
    if (!this.givenBack.has(lock)) super.written(lock, index, accepted, now);
  }
}
