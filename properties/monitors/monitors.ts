import type { Answer, Command, NodeSet } from '../../core/index.js';
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
import { Closeness } from './closeness.js';
import { Ledger } from './ledger.js';
import { MutualExclusion } from './mutual-exclusion.js';
import { Protocol } from './protocol.js';
import { Validity } from './validity.js';

/** All monitors of a run, behind one observer. */
export class Monitors extends Observer {
  readonly violations: Violation[] = [];
  readonly availability: Availability;
  readonly closeness: Closeness = new Closeness();
  /** Writes that reached the resource; without any, effects are unchecked. */
  writes = 0;
  private world: World | null = null;
  private readonly mutualExclusion: MutualExclusion;
  private readonly validity: Validity;
  private readonly actions: ActionInBelief;
  private readonly ledger: Ledger;
  private readonly protocol: Protocol;
  private readonly coverage: Coverage;
  private readonly stopAt: readonly PropertyId[];

  /**
   * `stopAt` ends the run at the first violation of one of these properties, which is all that a search needs; `counts`
   * takes in what the run went through.
   */
  constructor(setup: Setup, stopAt: readonly PropertyId[] = [], counts: Counts = noCounts()) {
    super();
    this.stopAt = stopAt;
    this.coverage = new Coverage(setup, counts);
    const report = (violation: Violation): void => this.report(violation);
    const resourceOf = (key: number): string => this.world?.chronicle.resourceOf(key) ?? '?';
    const withdraw = (violation: Violation): void => this.withdraw(violation);
    this.mutualExclusion = new MutualExclusion(report, withdraw, resourceOf);
    this.validity = new Validity(report, withdraw, resourceOf, this.closeness);
    this.actions = new ActionInBelief(setup.resource, report);
    this.ledger = new Ledger();
    this.availability = new Availability(setup, this.ledger, () => this.world?.clients ?? []);
    const ownerOf = (token: number): LockRun | null => this.world?.ownerOf(token) ?? null;
    this.protocol = new Protocol(setup, this.ledger, this.availability, report, ownerOf);
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
    // What is wrong with the claim itself comes before what follows from it.
    this.protocol.claimed(lock, now);
    this.validity.check(lock, now);
    this.mutualExclusion.claimed(lock, now);
    this.availability.claimed(lock, now);
  }

  override extended(lock: LockRun, now: TrueTime): void {
    this.coverage.extended();
    this.protocol.extended(lock, now);
    this.validity.check(lock, now);
    this.mutualExclusion.claimed(lock, now);
    this.availability.claimed(lock, now);
  }

  override ended(lock: LockRun, cause: EndCause, now: TrueTime): void {
    this.coverage.ended(lock, cause, now);
    this.validity.ended(lock, now);
    this.mutualExclusion.ended(lock, now);
    this.availability.ended(lock, cause, now);
  }

  override failed(lock: LockRun, now: TrueTime): void {
    this.coverage.failed(lock);
    this.protocol.failed(lock, now);
    this.availability.failed(lock);
  }

  override sent(lock: LockRun, to: NodeSet, command: Command, now: TrueTime): void {
    this.protocol.sent(lock, to, command, now);
  }

  override executed(node: number, command: Command, answer: Answer, now: TrueTime): void {
    this.protocol.executed(node, command, answer, now);
  }

  override keySet(node: number, key: number, token: number, now: TrueTime): void {
    this.validity.keySet(key, token);
    this.protocol.keySet(node, token, now);
  }

  override keyGone(node: number, key: number, token: number, cause: GoneCause, by: number, now: TrueTime): void {
    const owner = this.world?.ownerOf(token) ?? null;
    this.coverage.keyGone(owner, cause, now);
    this.validity.keyGone(key, token, owner, now);
    this.protocol.keyGone(node, token, cause, by, now);
  }

  override faultStrikes(fault: Fault, now: TrueTime): void {
    this.coverage.faultStrikes(fault, now);
    if (fault.kind === 'client-crash') this.clientDies(fault.client, now);
    if (fault.kind === 'clock-step' || fault.kind === 'clock-rate' || fault.kind === 'suspend') {
      this.clockChanges(fault.process, now);
    }
  }

  /** Nobody will have any use for what it has set. */
  private clientDies(name: ProcessName, now: TrueTime): void {
    for (const lock of this.world?.clients.find((client) => client.name === name)?.locks ?? []) {
      const use = this.ledger.latestOf(lock);
      if (use !== undefined) this.availability.over(use, now);
    }
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

  override nodeDown(node: number, now: TrueTime): void {
    this.availability.nodeDown(node, now);
  }

  override nodeUp(node: number, now: TrueTime): void {
    this.coverage.nodeUp(now);
    this.availability.nodeUp(node, now);
  }

  override membershipChanged(now: TrueTime): void {
    this.availability.membershipChanged(now);
  }

  override written(lock: LockRun, index: number, accepted: boolean, now: TrueTime): void {
    this.writes++;
    this.coverage.written();
    this.closeness.written(lock, now);
    this.actions.written(lock, index, now);
    this.protocol.written(lock, accepted, now);
  }

  override finished(now: TrueTime): void {
    this.mutualExclusion.finished(now);
    this.validity.finished(now);
    this.availability.finished(now);
  }
}
