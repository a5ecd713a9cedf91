import type { Fault, ProcessName, PropertyId } from '../../scenarios/index.js';
import {
  type EndCause,
  type GoneCause,
  type LockRun,
  Observer,
  type Setup,
  type TrueTime,
  type World,
} from '../../sim/index.js';
import { type Counts, Coverage, noCounts } from '../coverage.js';
import type { Violation } from '../violation.js';
import { ActionInBelief } from './action-in-belief.js';
import { Availability } from './availability.js';
import { MutualExclusion } from './mutual-exclusion.js';
import { Validity } from './validity.js';

/** All monitors of a run, behind one observer. */
export class Monitors extends Observer {
  readonly violations: Violation[] = [];
  readonly availability: Availability;
  /** Writes that reached the resource; without any, effects are unchecked. */
  writes = 0;
  private world: World | null = null;
  private readonly mutualExclusion: MutualExclusion;
  private readonly validity: Validity;
  private readonly actions: ActionInBelief;
  private readonly coverage: Coverage;
  private readonly stopAt: readonly PropertyId[];

  /**
   * `stopAt` ends the run at the first violation of one of these properties, which is all that a search needs; `counts`
   * takes in what the run went through.
   */
  constructor(setup: Setup, stopAt: readonly PropertyId[] = [], counts: Counts = noCounts()) {
    super();
    this.stopAt = stopAt;
    this.coverage = new Coverage(counts);
    const report = (violation: Violation): void => this.report(violation);
    const resourceOf = (key: number): string => this.world?.chronicle.resourceOf(key) ?? '?';
    const withdraw = (violation: Violation): void => this.withdraw(violation);
    this.mutualExclusion = new MutualExclusion(report, withdraw, resourceOf);
    this.validity = new Validity(setup.cluster.nodes, report, withdraw, resourceOf);
    this.actions = new ActionInBelief(report);
    this.availability = new Availability(setup);
  }

  /** Tells the monitors which world they watch, before it runs. */
  watch(world: World): void {
    this.world = world;
  }

  private report(violation: Violation): void {
    this.violations.push(violation);
    if (this.stopAt.includes(violation.property)) this.world?.stop();
  }

  private withdraw(violation: Violation): void {
    this.violations.splice(this.violations.indexOf(violation), 1);
  }

  override attempted(lock: LockRun, now: TrueTime): void {
    this.coverage.attempted(lock);
    this.availability.attempted(lock, now);
  }

  override claimed(lock: LockRun, now: TrueTime): void {
    this.coverage.claimed(lock);
    this.validity.check(lock, now);
    this.mutualExclusion.claimed(lock, now);
    this.availability.claimed(lock);
  }

  override extended(lock: LockRun, now: TrueTime): void {
    this.coverage.extended();
    this.validity.check(lock, now);
    this.mutualExclusion.claimed(lock, now);
    this.availability.claimed(lock);
  }

  override ended(lock: LockRun, cause: EndCause, now: TrueTime): void {
    this.coverage.ended(lock, cause);
    this.validity.ended(lock, now);
    this.mutualExclusion.ended(lock, now);
    this.availability.ended(lock, now);
  }

  override failed(lock: LockRun): void {
    this.coverage.failed(lock);
    this.availability.failed(lock);
  }

  override keySet(_node: number, key: number, token: number): void {
    this.validity.keySet(key, token);
  }

  override keyGone(_node: number, key: number, token: number, cause: GoneCause, _by: number, now: TrueTime): void {
    const owner = this.world?.ownerOf(token) ?? null;
    this.coverage.keyGone(owner, cause, now);
    this.validity.keyGone(key, token, owner, now);
  }

  override faultStrikes(fault: Fault, now: TrueTime): void {
    this.coverage.faultStrikes(fault, now);
    if (fault.kind === 'clock-step' || fault.kind === 'clock-rate') this.clockChanges(fault.process, now);
  }

  private clockChanges(process: ProcessName, now: TrueTime): void {
    const client = this.world?.clients.findIndex(({ name }) => name === process) ?? -1;
    if (client < 0) return;
    this.mutualExclusion.clockChanges(client, now);
    this.validity.clockChanges(client, now);
  }

  override clientClockChanged(client: number, now: TrueTime): void {
    for (const lock of this.world?.clients[client]?.locks ?? []) this.validity.check(lock, now);
    this.mutualExclusion.clockChanged(client, now);
  }

  override nodeDown(_node: number, now: TrueTime): void {
    this.availability.nodeDown(now);
  }

  override nodeUp(_node: number, now: TrueTime): void {
    this.availability.nodeUp(now);
  }

  override written(lock: LockRun, index: number, now: TrueTime): void {
    this.writes++;
    this.actions.written(lock, index, now);
  }

  override finished(now: TrueTime): void {
    this.mutualExclusion.finished(now);
    this.validity.finished(now);
    this.availability.finished(now);
  }
}
