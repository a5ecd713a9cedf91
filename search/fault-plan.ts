import { extendsItself, members, type Operation, size } from '../core/index.js';
import type { ClockPlan, Crash, Fault, ProcessName } from '../scenarios/index.js';
import { nodeName, type RandomStream, type SimLock, type WorldView } from '../sim/index.js';
import { type FaultModel, mostDownOf } from './fault-model.js';
import type { NodeOutage } from './liveness-config.js';
import { outage } from './outage.js';
import { forgetsUnawares, type RunConfig } from './run-config.js';
import { countsForTokens, SpareCounters } from './spare-counters.js';

const PERCENT = 10_000;
const ENDS_OF_PROCESS = ['process', 'order'] as const;
const LOSS_OF_POWER = ['power'] as const;
const WAYS_DOWN = ['process', 'power', 'order'] as const;
/** Processes that end in a run for the sake of their fencing counters. */
const MOST_LOSSES = 8;
const ALL_OPERATIONS: readonly Operation[] = ['acquire', 'extend', 'release'];

/** Plans the faults of one run: some at its start, and at each claim those that stress its assumption. */
export class FaultPlan {
  /** Whether the fault that stresses the assumption has been injected. */
  hasStressed = false;
  /** How late writes may be, µs: by the network, and by one pause of their client. */
  readonly latenessUs: number;
  readonly pauseUs: number;
  private readonly faultModel: FaultModel;
  private readonly runConfig: RunConfig;
  private readonly draw: RandomStream;
  /** Nodes that may still go down, and how. */
  private downLeft: number;
  private crashesLeft: number;
  private powerLossesLeft: number;
  private pausesLeft: number;
  private suspendsLeft: number;
  private wallStepsLeft: number;
  private deathsLeft: number;
  private failoversLeft: number;
  private flushesLeft: number;
  /** Nodes whose processes may still end for the sake of their fencing counters. */
  private lossesLeft: number;
  private readonly frozenWriters: string[] = [];
  private readonly spare: SpareCounters;

  constructor(faultModel: FaultModel, runConfig: RunConfig, draw: RandomStream) {
    this.faultModel = faultModel;
    this.runConfig = runConfig;
    this.draw = draw;
    this.downLeft = mostDownOf(faultModel);
    this.crashesLeft = faultModel.crashes;
    this.powerLossesLeft = faultModel.powerLosses;
    this.pausesLeft = runConfig.pauses ? faultModel.pauses : 0;
    this.suspendsLeft = runConfig.suspends ? faultModel.suspends : 0;
    this.wallStepsLeft = runConfig.wallSteps ? faultModel.wallSteps : 0;
    this.deathsLeft = runConfig.deadClients ? faultModel.clientCrashes : 0;
    this.failoversLeft = runConfig.failovers ? faultModel.failovers : 0;
    this.flushesLeft = faultModel.flushes;
    this.lossesLeft = faultModel.counters && countsForTokens(faultModel.policy) ? MOST_LOSSES : 0;
    this.spare = new SpareCounters(faultModel);
    const factor = faultModel.stretch['write-delay'] * runConfig.boundFraction;
    this.latenessUs = (factor > 1 ? Math.ceil : Math.floor)((runConfig.guardUs ?? 0) * factor);
    const mayPause = faultModel.pauses > 0 && this.latenessUs > 0;
    this.pauseUs = mayPause && draw.chance(50 * PERCENT) ? draw.below(this.latenessUs + 1) : 0;
    this.hasStressed = runConfig.stressed === 'clock-drift';
  }

  /** Structured trouble from the beginning: one client cut off from some nodes, a node that dies for long. */
  atStart(): Fault[] {
    const { draw, runConfig, faultModel } = this;
    const ttl = runConfig.ttlMs * 1000;
    const faults: Fault[] = (runConfig.patience?.out ?? []).map(({ node, how }) => this.takeOut(node, how));
    if (runConfig.partitions) {
      const count = draw.between(1, Math.max(1, faultModel.partitions));
      for (let i = 0; i < count && faultModel.partitions > 0; i++) {
        const { structured } = runConfig.tactics;
        const cut = draw.subset(faultModel.nodes, structured ? draw.between(1, faultModel.nodes - 1) : 1).map(nodeName);
        const atUs = structured && draw.chance(60 * PERCENT) ? 0 : draw.below(ttl);
        const forUs = structured && draw.chance(50 * PERCENT) ? draw.between(1, 20_000) : draw.between(1, 2 * ttl);
        const client = `c${draw.between(1, faultModel.clients)}`;
        const oneWay = draw.chance(30 * PERCENT);
        const held = draw.chance(25 * PERCENT) ? { holds: true } : {};
        faults.push({ kind: 'partition', atUs, from: [client], to: cut, oneWay, forUs, ...held });
      }
    }
    for (let i = 0; runConfig.refusals && i < faultModel.refusals; i++) {
      const operations = draw.pick<readonly Operation[]>([['acquire', 'extend'], ['release'], ALL_OPERATIONS]);
      const node = nodeName(draw.below(faultModel.nodes));
      faults.push({ kind: 'error-replies', node, operations, atUs: draw.below(ttl), forUs: draw.between(1, ttl) });
    }
    if (this.downLeft > 0 && runConfig.stressed !== 'restart-delay' && draw.chance(20 * PERCENT)) {
      const restartAfterUs = draw.chance(50 * PERCENT) ? null : this.longEnough();
      const by = draw.chance(30 * PERCENT) ? ({ restartBy: 'node-clock' } as const) : {};
      const node = draw.below(faultModel.nodes);
      const atUs = draw.below(ttl);
      if (this.spare.take(node, atUs, null)) {
        const down = this.goesDown('process');
        faults.push({ kind: 'crash', node: nodeName(node), atUs, restartAfterUs, ...by, ...down });
      }
    }
    return faults;
  }

  /** A node is out of order from the beginning to the end. */
  private takeOut(index: number, how: NodeOutage): Fault {
    const { clients, untilUs } = this.runConfig.setup;
    const node = nodeName(index);
    if (how === 'dead') this.spare.take(index, 0, null);
    if (how !== 'cut-off') return outage(how, node, untilUs, ALL_OPERATIONS);
    const oneWay = this.draw.chance(50 * PERCENT);
    return { kind: 'partition', from: [...clients], to: [node], oneWay, atUs: 0, forUs: untilUs + 1 };
  }

  /** A client has just begun to believe: this is the hold to stress. */
  atClaim(lock: SimLock, view: WorldView): Fault[] {
    const faults: Fault[] = [];
    const { draw, runConfig } = this;
    if (runConfig.stressed === 'clock-step' && !this.hasStressed && draw.chance(70 * PERCENT))
      this.step(lock, view, faults);
    if (runConfig.stressed === 'restart-delay') this.crashVoters(lock, view, faults);
    if (runConfig.stressed === 'data-loss' && !this.hasStressed && draw.chance(60 * PERCENT))
      this.forget(lock, view, faults);
    if (runConfig.stressed === 'clock-drift' && draw.chance(20 * PERCENT)) faults.push(this.changeRate(view));
    if (runConfig.durable && this.downLeft > 0 && draw.chance(50 * PERCENT)) {
      const crash = this.crashDurably(lock, view);
      if (crash !== null) faults.push(crash);
    }
    if (this.lossesLeft > 0 && draw.chance(60 * PERCENT)) this.endProcess(lock, view, faults);
    if (this.flushesLeft > 0 && draw.chance(50 * PERCENT)) this.flush(lock, view, faults);
    if (this.pauseUs > 0) this.freeze(lock, view, faults);
    if (this.failoversLeft > 0 && draw.chance(40 * PERCENT)) {
      this.failoversLeft--;
      const node = draw.below(this.faultModel.nodes);
      const when = this.during(lock, view, null);
      if (this.spare.take(node, when.atUs, view)) faults.push({ kind: 'failover', node: nodeName(node), ...when });
    }
    if (this.pausesLeft > 0 && draw.chance(30 * PERCENT)) {
      this.pausesLeft--;
      const first = draw.chance(30 * PERCENT) ? ({ first: 'timers' } as const) : {};
      faults.push({ kind: 'pause', ...this.frozen(lock, view), ...first });
    }
    if (this.suspendsLeft > 0 && draw.chance(40 * PERCENT)) {
      this.suspendsLeft--;
      const frozen = this.frozen(lock, view);
      // A node whose clock stops keeps its keys for longer, which harms nobody's safety.
      const all = frozen.process.startsWith('n') && draw.chance(50 * PERCENT);
      faults.push({ kind: 'suspend', ...frozen, ...(all ? { stops: 'all' } : {}) });
    }
    if (this.wallStepsLeft > 0 && draw.chance(40 * PERCENT)) {
      this.wallStepsLeft--;
      const most = draw.pick([200_000, 2_000 * runConfig.ttlMs]);
      const byUs = draw.between(-most, most);
      faults.push({ kind: 'clock-step', process: lock.client.name, atUs: view.now + draw.between(1, 500_000), byUs });
    }
    if (runConfig.reorders && draw.chance(20 * PERCENT)) faults.push(this.reorder(lock, view));
    if (this.deathsLeft > 0 && draw.chance(20 * PERCENT)) {
      this.deathsLeft--;
      const again = draw.chance(50 * PERCENT) ? { restartAfterUs: draw.below(runConfig.ttlMs * 1000) } : {};
      faults.push({
        kind: 'client-crash',
        client: lock.client.name,
        atUs: view.now + draw.between(1, 50_000),
        ...again,
      });
    }
    return faults;
  }

  /** A node with a disk goes down: its process dies, its power goes, or it is shut down in order. */
  private crashDurably(lock: SimLock, view: WorldView): Crash | null {
    const { draw, runConfig, faultModel } = this;
    const { persistence, fsync } = runConfig.setup.cluster;
    const [node = 0] = this.targets(lock, 1);
    const how = draw.pick(
      this.crashesLeft === 0 ? LOSS_OF_POWER : this.powerLossesLeft === 0 ? ENDS_OF_PROCESS : WAYS_DOWN,
    );
    const isAlways = persistence === 'always';
    const losesPower = how === 'power' && (isAlways || forgetsUnawares(faultModel));
    if (!losesPower && this.crashesLeft === 0) return null;
    const hasDumps = persistence === 'rdb';
    // A node that writes before it answers loses nothing with the power either; between two dumps a process keeps nothing.
    const loses =
      how === 'power' ? !isAlways : how === 'process' && (hasDumps || (!isAlways && (fsync?.takesUs ?? 0) > 0));
    const restartAfterUs =
      loses && (hasDumps || forgetsUnawares(faultModel))
        ? this.longEnough()
        : draw.pick([0, 0, 1_000, draw.below(runConfig.ttlMs * 1000)]);
    const when = this.during(lock, view, null);
    if (!this.spare.take(node, when.atUs, view)) return null;
    return {
      kind: 'crash',
      node: nodeName(node),
      ...when,
      restartAfterUs,
      ...this.goesDown(losesPower ? 'power' : 'process'),
      ...(how === 'order' ? { clean: true } : {}),
    };
  }

  /** A process ends that knew its fencing counter, as soon as others can be spared that did not. */
  private endProcess(lock: SimLock, view: WorldView, faults: Fault[]): void {
    const { draw, runConfig, faultModel } = this;
    const node = draw.below(faultModel.nodes);
    const when = this.during(lock, view, null);
    const { persistence } = runConfig.setup.cluster;
    const ageUs = persistence === 'none' ? 0 : draw.pick([0, 0, draw.below(runConfig.setup.untilUs)]);
    const keeps = persistence === 'always' && ageUs === 0;
    const restartAfterUs = keeps ? draw.pick([0, 0, 1_000]) : this.longEnough();
    const power = draw.chance(50 * PERCENT) ? { power: true } : {};
    if (!this.spare.take(node, when.atUs, view)) return;
    this.lossesLeft--;
    const age = ageUs === 0 ? {} : { ageUs };
    faults.push({ kind: 'crash', node: nodeName(node), ...when, restartAfterUs, ...power, ...age });
  }

  /** One more node goes down: in this way, or in the other where none of this is left. */
  private goesDown(how: 'process' | 'power'): { readonly power?: true } {
    const isPower = this.powerLossesLeft > 0 && (how === 'power' || this.crashesLeft === 0);
    this.downLeft--;
    if (isPower) this.powerLossesLeft--;
    else this.crashesLeft--;
    return isPower ? { power: true } : {};
  }

  /** So long that a node is no danger, whatever it has forgotten, and whatever the clocks do within their bounds. */
  private longEnough(): number {
    const ttl = this.runConfig.ttlMs * 1000;
    return Math.floor(1.1 * ttl) + this.draw.below(ttl);
  }

  /** The holder hears of its nodes again: the same, but beginning with another. */
  private reorder({ client }: SimLock, { now }: WorldView): Fault {
    const { draw, faultModel } = this;
    const first = draw.between(1, faultModel.nodes - 1);
    const nodes = Array.from({ length: faultModel.nodes }, (_, place) => nodeName((first + place) % faultModel.nodes));
    return { kind: 'reconfigure', client: client.name, nodes, atUs: now + draw.between(1, 50_000) };
  }

  /**
   * An instant of the claim: this one, after everything else in it; its last milliseconds; or any. Without a bias any
   * later one, unless it has to be while the lock is held, until `heldUntil`.
   */
  private during(
    lock: SimLock,
    view: WorldView,
    heldUntil: number | null,
  ): { readonly atUs: number; readonly edge: 'after' } {
    const { draw, runConfig } = this;
    const { now } = view;
    const end = Math.min(heldUntil ?? Number.POSITIVE_INFINITY, Math.max(lock.endsAt, now));
    const left = end - now;
    if (!runConfig.tactics.biased) {
      const range = heldUntil === null ? runConfig.setup.untilUs - now : left;
      return { atUs: now + draw.below(Math.max(1, range)), edge: 'after' };
    }
    const kind = draw.below(10);
    const offset =
      left <= 1 || kind < 5 ? 0 : kind < 7 ? Math.max(0, left - draw.between(1, 250_000)) : draw.below(left);
    return { atUs: now + offset, edge: 'after' };
  }

  /** Who is paused, from soon on, and for how long: the holder mostly. */
  private frozen(
    lock: SimLock,
    view: WorldView,
  ): { readonly process: ProcessName; readonly atUs: number; readonly forUs: number } {
    const { draw, runConfig, faultModel } = this;
    const process = draw.chance(70 * PERCENT) ? lock.client.name : nodeName(draw.below(faultModel.nodes));
    const most = draw.pick([5_000, 100_000, runConfig.ttlMs * 1000, runConfig.ttlMs * 2000]);
    return { process, atUs: view.now + draw.between(1, 3_000), forUs: draw.between(1, most) };
  }

  /** All of the drift allowance at once: nodes forward, or the holder backward, which stops if nobody can set its clock. */
  private step(lock: SimLock, view: WorldView, faults: Fault[]): void {
    const { draw, runConfig, faultModel } = this;
    const factor = faultModel.stretch['clock-step'] * runConfig.boundFraction;
    const byUs = faultModel.stepUs ?? (factor > 1 ? Math.ceil : Math.floor)(runConfig.bounds.stepUs * factor);
    if (byUs === 0) return;
    this.hasStressed = true;
    const when = this.during(lock, view, null);
    if (draw.chance(30 * PERCENT)) {
      const process = lock.client.name;
      if (runConfig.setup.policy.habits.clock === 'wall')
        faults.push({ kind: 'clock-step', process, ...when, byUs: -byUs });
      else faults.push({ kind: 'suspend', process, ...when, forUs: byUs, stops: 'all' });
      return;
    }
    const all = draw.chance(60 * PERCENT);
    for (const node of this.targets(lock, all ? faultModel.nodes : 1))
      faults.push({ kind: 'clock-step', process: nodeName(node), ...when, byUs });
  }

  /** A clock runs at another rate from soon on, no farther off than it may be. */
  private changeRate(view: WorldView): Fault {
    const { draw, runConfig } = this;
    const plan = draw.pick<ClockPlan | undefined>([undefined, ...runConfig.setup.cluster.clocks]);
    const process = plan?.process ?? nodeName(0);
    const most = runConfig.setup.cluster.clocks.find((clock) => clock.process === process)?.ratePpm ?? 0;
    const ratePpm = most === 0 ? 0 : Math.sign(most) * draw.below(Math.abs(most) + 1);
    return { kind: 'clock-drift', process, atUs: view.now + draw.between(1, 1_000_000), ratePpm };
  }

  /** Nodes that voted for this claim go down, and are back as early as they may. */
  private crashVoters(lock: SimLock, view: WorldView, faults: Fault[]): void {
    const { draw, runConfig, faultModel } = this;
    if (this.downLeft === 0 || !draw.chance(70 * PERCENT)) return;
    const { restartUs } = runConfig.bounds;
    const factor = faultModel.stretch['restart-delay'] * runConfig.boundFraction;
    const restartAfterUs = faultModel.restartDelayUs ?? Math.ceil(restartUs + restartUs * (1 - factor));
    const count = draw.between(1, this.downLeft);
    const when = this.during(lock, view, null);
    for (const node of this.targets(lock, count)) {
      if (!this.spare.take(node, when.atUs, view)) continue;
      this.hasStressed = true;
      faults.push({ kind: 'crash', node: nodeName(node), ...when, restartAfterUs, ...this.goesDown(this.surest) });
    }
  }

  /** How a node surely forgets: where nodes write to a disk every second, by a loss of power. */
  private get surest(): 'process' | 'power' {
    return this.runConfig.setup.cluster.persistence === 'everysec' ? 'power' : 'process';
  }

  private flush(lock: SimLock, view: WorldView, faults: Fault[]): void {
    const when = this.during(lock, view, null);
    for (const node of this.targets(lock, this.draw.between(1, this.flushesLeft))) {
      if (!this.spare.take(node, when.atUs, view)) continue;
      this.flushesLeft--;
      faults.push({ kind: 'data-loss', node: nodeName(node), ...when });
    }
  }

  /** A client is frozen once, between the check and the sending of its write. */
  private freeze(lock: SimLock, view: WorldView, faults: Fault[]): void {
    const [write] = lock.plan.writes;
    const { name } = lock.client;
    if (write === undefined || this.frozenWriters.includes(name)) return;
    this.frozenWriters.push(name);
    faults.push({ kind: 'pause', process: name, atUs: view.now + write.checkAfterUs + 1, forUs: this.pauseUs });
  }

  /** As many voters as the votes allow forget at once, or one more if the bound is to be passed. */
  private forget(lock: SimLock, view: WorldView, faults: Fault[]): void {
    const { faultModel, runConfig } = this;
    const spare = size(lock.state.votes.yes) - lock.state.electorate.needed;
    const count = spare + (faultModel.stretch['data-loss'] > 1 ? 1 : 0);
    // After an extension only the votes of its round count, and how many those will be is not known yet.
    if (count <= 0 || extendsItself(runConfig.setup.policy.settings)) return;
    this.hasStressed = true;
    // While the key is there nobody else's can be, so that nobody else's claim loses a vote.
    const heldUntil = lock.plan.holdUs === null ? Number.POSITIVE_INFINITY : view.now + lock.plan.holdUs;
    const when = this.during(lock, view, heldUntil);
    const canCrash = faultModel.powerLosses > 0 || (faultModel.crashes > 0 && this.surest === 'process');
    const isFlushed = this.draw.chance(30 * PERCENT) || !canCrash;
    const power = this.surest === 'power' || faultModel.crashes === 0 ? { power: true } : {};
    for (const node of this.someVoters(lock, count)) {
      if (!this.spare.take(node, when.atUs, view)) continue;
      if (isFlushed) faults.push({ kind: 'data-loss', node: nodeName(node), ...when });
      else faults.push({ kind: 'crash', node: nodeName(node), ...when, restartAfterUs: 0, ...power });
    }
  }

  /** Nodes to strike: voters for this claim, or any where trouble has no structure. */
  private targets(lock: SimLock, count: number): number[] {
    const { nodes } = this.faultModel;
    return this.runConfig.tactics.structured
      ? this.someVoters(lock, count)
      : this.draw.subset(nodes, Math.min(count, nodes));
  }

  private someVoters(lock: SimLock, count: number): number[] {
    const voters = members(lock.voters);
    return this.draw.subset(voters.length, Math.min(count, voters.length)).map((i) => voters[i] ?? 0);
  }
}
