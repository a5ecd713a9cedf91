import { quorumOf } from '../../deviations/index.js';
import { Monitors } from '../../properties/monitors/monitors.js';
import type { Schedule } from '../../scenarios/index.js';
import {
  type HoldEndCause,
  type KeyRemovalCause,
  nodeName,
  ScriptedAdversary,
  type SimLock,
  setupOf,
  type TrueTime,
  type WatchedWorld,
  World,
} from '../../sim/index.js';

/** A change of what a client believes, with its true time. */
interface Change {
  readonly client: string;
  readonly atUs: number;
}

/** What one run showed. */
export interface RunObservation {
  /** Two clients believed at once. */
  readonly overlap: boolean;
  /** A fencing token is not greater than one before it. */
  readonly disordered: boolean;
  /** Writes that reached the resource, and whether one came while its writer did not hold the lock. */
  readonly writes: number;
  readonly late: boolean;
  /** A claim had fewer nodes behind it than a majority: the project's own monitor says so. */
  readonly thin: boolean;
  /** A claim had fewer nodes behind it than the quorum that it was made with. */
  readonly quorumLost: boolean;
  readonly claims: readonly Change[];
  /** Clients that were told of a new deadline, in order. */
  readonly extended: readonly Change[];
  /** Beliefs that ended, in order. */
  readonly ends: readonly Change[];
  /** The first instant, not before the one asked for, at which a quorum of nodes is up and without a key; or `null`. */
  readonly freeUs: number | null;
  /** What the clock of a node counted from its crash to its return, by node; the last of each. */
  readonly awayUs: ReadonlyMap<string, number>;
}

/** The monitors that judge every run, and beside them the few facts that an adversary plans with. */
class Watch extends Monitors {
  readonly claims: Change[] = [];
  readonly extensions: Change[] = [];
  readonly ends: Change[] = [];
  readonly awayUs = new Map<string, number>();
  freeUs: number | null = null;
  quorumLost = false;
  private readonly fromUs: number;
  private readonly quorum: number;
  private watched: WatchedWorld | null = null;
  private readonly stored: number[];
  private readonly up: boolean[];
  private readonly wentDown: number[] = [];

  constructor(schedule: Schedule, fromUs: number) {
    const setup = setupOf(schedule);
    super(setup);
    this.fromUs = fromUs;
    this.quorum = quorumOf(setup.policy, setup.cluster.nodes);
    this.stored = Array.from({ length: setup.cluster.nodes }, () => 0);
    this.up = this.stored.map(() => true);
  }

  override begins(world: WatchedWorld): void {
    super.begins(world);
    this.watched = world;
  }

  override claimed(lock: SimLock, now: TrueTime): void {
    super.claimed(lock, now);
    this.claims.push({ client: lock.client.name, atUs: now });
    this.countVotes(lock, now);
    this.look(now);
  }

  override extended(lock: SimLock, now: TrueTime): void {
    super.extended(lock, now);
    this.extensions.push({ client: lock.client.name, atUs: now });
  }

  override ended(lock: SimLock, cause: HoldEndCause, now: TrueTime): void {
    super.ended(lock, cause, now);
    this.ends.push({ client: lock.client.name, atUs: now });
  }

  override keySet(node: number, key: number, token: number, now: TrueTime): void {
    super.keySet(node, key, token, now);
    this.stored[node] = token;
  }

  override keyGone(node: number, key: number, token: number, cause: KeyRemovalCause, by: number, now: TrueTime): void {
    super.keyGone(node, key, token, cause, by, now);
    if (this.stored[node] === token) this.stored[node] = 0;
    const owner = this.watched?.ownerOf(token) ?? null;
    if (owner !== null && owner.token === token) this.countVotes(owner, now);
    this.look(now);
  }

  private countVotes(lock: SimLock, now: TrueTime): void {
    if (!lock.believes(now)) return;
    if (this.stored.filter((token) => token === lock.token).length < this.quorum) this.quorumLost = true;
  }

  private look(now: TrueTime): void {
    if (this.freeUs !== null || now < this.fromUs) return;
    const free = this.stored.filter((token, node) => token === 0 && this.up[node]).length;
    if (free >= this.quorum) this.freeUs = now;
  }

  override nodeDown(node: number, now: TrueTime, power: boolean): void {
    super.nodeDown(node, now, power);
    this.up[node] = false;
    this.wentDown[node] = this.clockOf(node, now);
  }

  override nodeUp(node: number, now: TrueTime): void {
    super.nodeUp(node, now);
    this.up[node] = true;
    this.awayUs.set(nodeName(node), this.clockOf(node, now) - (this.wentDown[node] ?? 0));
    this.look(now);
  }

  private clockOf(node: number, now: TrueTime): number {
    return this.watched?.nodes[node]?.clock.read(now) ?? 0;
  }
}

/** Runs a schedule and tells what it showed. `fromUs` is when to begin to look for a free quorum. */
export function observeRun(schedule: Schedule, fromUs = 0): RunObservation {
  const watch = new Watch(schedule, fromUs);
  const world = new World(setupOf(schedule), new ScriptedAdversary(schedule), watch, false);
  world.run();
  return {
    overlap: watch.violations.some((it) => it.property === 'mutual-exclusion'),
    disordered: watch.violations.some((it) => it.property === 'fencing'),
    writes: watch.writes,
    late: watch.violations.some((it) => it.property === 'no-stale-write'),
    thin: watch.violations.some((it) => it.property === 'quorum-backed'),
    quorumLost: watch.quorumLost,
    claims: watch.claims,
    extended: watch.extensions,
    ends: watch.ends,
    freeUs: watch.freeUs,
    awayUs: watch.awayUs,
  };
}
