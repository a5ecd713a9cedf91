import { type Answer, type Command, LONGEST_US, type NodeSet } from '../core/index.js';
import { Monitors } from '../properties/index.js';
import type { Fault, ProcessName } from '../scenarios/index.js';
import {
  type HoldEndCause,
  type KeyRemovalCause,
  nodeName,
  type SimLock,
  type TrueTime,
  type WatchedWorld,
  type World,
} from '../sim/index.js';
import type { LibraryCommand } from './addressed.js';
import { Calls, type Ways } from './judges/calls.js';
import type { ClientViolation } from './judges/failure.js';
import { Keys } from './judges/keys.js';
import { Margin } from './judges/margin.js';
import { Quiet } from './judges/quiet.js';

/** A message that takes longer than this one way is in the way of what it belongs to, µs. */
const SLOW_US = 20_000;

/** What hears of the machines that nodes run on, and knows who is connected to them. */
interface Machines extends Ways {
  nodeDied(node: number, power: boolean): void;
  nodeIsBack(node: number): void;
}

/** What a node has answered. */
interface Reply {
  readonly node: number;
  readonly answer: Answer;
}

/** What is judged of clients besides what monitors judge. */
interface Judges {
  readonly quiet: Quiet;
  readonly keys: Keys;
  readonly calls: Calls;
  readonly margin: Margin;
}

/** The monitors of a run of libraries. */
export class LibraryMonitors extends Monitors {
  private readonly givenBack = new Set<SimLock>();
  /** Locks that were over as they were handed over, and so held for no time. */
  private readonly overAtOnce = new Set<SimLock>();
  /** Hears of processes of nodes that die, and of nodes that are back. */
  machines: Machines | null = null;
  private judging: Judges | null = null;

  /** The nodes of the run; there from its beginning on. */
  nodes: World['nodes'] = [];

  private get judges(): Judges {
    if (this.judging === null) throw new RangeError('the run has not begun');
    return this.judging;
  }

  override begins(world: WatchedWorld): void {
    const { nodes, machines } = this;
    if (machines === null) throw new RangeError('the run has no machines');
    const quiet = new Quiet(world.nodes);
    const keys = new Keys(world, quiet);
    const calls = new Calls(world, quiet, keys, machines);
    this.judging = { quiet, keys, calls, margin: new Margin(world, nodes, quiet) };
    super.begins(world);
  }

  /** Whether a process has asked for a resource while it had a lock for it, or asked for one. */
  get overlap(): boolean {
    return this.judges.calls.overlap;
  }

  /** A process hears the answer of a node. */
  heard(command: LibraryCommand, { node, answer }: Reply, now: TrueTime): void {
    this.judges.calls.heard(command, now);
    // A client may have stopped waiting for one that comes later.
    const isRefused = command.operation === 'release' && answer === 'error' && now - command.sentUs <= SLOW_US;
    if (isRefused) this.judges.keys.refused(node, command, now);
  }

  /** The nodes that have owed a process an answer for long; whether all of them, and no majority, are out of order. */
  waitsFor(client: ProcessName, now: TrueTime): { readonly nodes: readonly string[]; readonly isMinority: boolean } {
    const { calls, quiet } = this.judges;
    const nodes = calls.waitsFor(client, now);
    const isMinority = quiet.nodesInOrder(now) > this.nodes.length / 2;
    return {
      nodes: nodes.map(nodeName),
      isMinority: isMinority && nodes.every((node) => !quiet.isInOrder(node, now)),
    };
  }

  /** Whether an acquisition has returned without the answer of a node that owes it. */
  get bounds(): boolean {
    return this.judges.calls.bounds;
  }

  /** What judges have found by the end of a run that has come to its end. */
  found(hanging: readonly ProcessName[], now: TrueTime): readonly ClientViolation[] {
    const { keys, calls, margin } = this.judges;
    keys.finished(this.nodes, now);
    calls.finished(hanging, now);
    return [...margin.violations, ...keys.violations, ...calls.violations];
  }

  /** A process notices that its connection to a node is broken, or finds none. */
  connectionBroke(client: ProcessName, node: number, now: TrueTime): void {
    this.judges.calls.connectionBroke(client, node, now);
  }

  // ——— what calls come to ———

  called(lock: SimLock, now: TrueTime): void {
    this.judges.calls.called(lock, now);
  }

  refused(lock: SimLock, error: unknown, now: TrueTime): void {
    this.judges.calls.refused(lock, error, now);
    this.judges.keys.over(lock, now);
  }

  /** The token that a lock is given for. */
  tokenBehind(lock: SimLock, now: TrueTime): number {
    return this.judges.keys.tokenBehind(lock, now);
  }

  /** A lock is asked for with another token from now on. */
  tokenOver(token: number, now: TrueTime): void {
    this.judges.keys.over(token, now);
  }

  /** A client keeps the release of a token for nodes that it has no connection to. */
  keepsRelease(token: number, nodes: NodeSet, now: TrueTime): void {
    this.judges.keys.releaseKept(token, nodes, now);
  }

  /** A release was kept back from its nodes: what answers it late may come after the client has given it up. */
  releaseWaited(lock: SimLock): void {
    this.judges.keys.releasedLate.add(lock);
  }

  givesBack(lock: SimLock, now: TrueTime): void {
    this.judges.calls.releasing(lock, now);
  }

  /** The work under a lock throws. */
  threw(lock: SimLock): void {
    this.judges.keys.threw.add(lock);
  }

  gaveBack(lock: SimLock, error: unknown, now: TrueTime): void {
    this.judges.calls.released(lock, error, now);
    this.judges.keys.over(lock, now);
  }

  /** Clocks do not run alike. */
  clocksDiffer(): void {
    this.judges.quiet.clocksChanged = true;
  }

  // ——— what the world does ———

  private says(lock: SimLock, now: TrueTime): void {
    const { deadline } = lock.state.hold;
    if (lock.believing && deadline < LONGEST_US && !this.overAtOnce.has(lock))
      this.judges.margin.believes(lock, lock.client.clock.when(deadline, now), now);
  }

  override attempted(lock: SimLock, now: TrueTime): void {
    super.attempted(lock, now);
    this.slowUs = Math.min(this.slowUs, SLOW_US);
  }

  override claimed(lock: SimLock, now: TrueTime): void {
    this.judges.calls.acquired(lock, now);
    super.claimed(lock, now);
    if (lock.client.clock.read(now) >= lock.state.hold.deadline) this.overAtOnce.add(lock);
    this.says(lock, now);
  }

  override extended(lock: SimLock, now: TrueTime): void {
    super.extended(lock, now);
    this.overAtOnce.delete(lock);
    this.says(lock, now);
  }

  override ended(lock: SimLock, cause: HoldEndCause, now: TrueTime): void {
    if (cause === 'released' && lock.client.clock.read(now) < lock.state.hold.deadline) this.givenBack.add(lock);
    if (cause !== 'crashed' && !this.overAtOnce.has(lock)) this.judges.margin.believes(lock, now, now);
    super.ended(lock, cause, now);
  }

  override troubled(until: TrueTime, now: TrueTime): void {
    this.judges.quiet.disturb(now, until);
    super.troubled(until, now);
  }

  override faultStrikes(fault: Fault, now: TrueTime, node: number, client: number): void {
    this.judges.quiet.strikes(fault, now);
    if (fault.kind === 'client-crash') {
      this.judges.keys.dies(fault.client);
      this.judges.calls.dies(fault.client);
    }
    super.faultStrikes(fault, now, node, client);
  }

  override nodeDown(node: number, now: TrueTime, power: boolean): void {
    this.machines?.nodeDied(node, power);
    super.nodeDown(node, now, power);
  }

  override nodeUp(node: number, now: TrueTime): void {
    this.machines?.nodeIsBack(node);
    this.judges.quiet.disturb(now, now);
    super.nodeUp(node, now);
  }

  override sent(lock: SimLock, to: NodeSet, command: Command, now: TrueTime): void {
    this.judges.keys.sent(lock, to, command, now);
    this.judges.calls.sent(lock, to, command, now);
    super.sent(lock, to, command, now);
  }

  override executes(node: number, command: Command, now: TrueTime): void {
    this.judges.keys.executes(command);
    this.judges.margin.executes(node, command, now);
    super.executes(node, command, now);
  }

  override executed(node: number, command: Command, answer: Answer, now: TrueTime): void {
    this.judges.keys.executed(node, command, answer, now);
    this.judges.margin.executed(node, command, answer, now);
    super.executed(node, command, answer, now);
  }

  override keySet(node: number, key: number, token: number, now: TrueTime): void {
    this.judges.keys.keySet(node, key, token, now);
    this.judges.calls.keySet(token, now);
    super.keySet(node, key, token, now);
  }

  override keyGone(node: number, key: number, token: number, cause: KeyRemovalCause, by: number, now: TrueTime): void {
    this.judges.keys.keyGone(node, key, cause, now);
    super.keyGone(node, key, token, cause, by, now);
  }

  /** A client is not to blame for a write that is on its way when the schedule releases a lock that it still holds. */
  override written(lock: SimLock, index: number, accepted: boolean, now: TrueTime): void {
    if (!this.givenBack.has(lock)) super.written(lock, index, accepted, now);
  }
}
