import { quorumOf } from '../../deviations/index.js';
import { Monitors } from '../../properties/index.js';
import type { Schedule } from '../../scenarios/index.js';
import {
  type HoldEndCause,
  type KeyRemovalCause,
  ScriptedAdversary,
  type Setup,
  type SimLock,
  type TrueTime,
  type WatchedWorld,
  World,
} from '../../sim/index.js';

/** The monitors of a run, and what they do not say of the hold of `c1`. */
export class HoldWatch extends Monitors {
  /** When `c1` got the lock; `null` where it did not. */
  heldAtUs: number | null = null;
  /** When it stopped to believe that it has it; infinite where it believes so at the end. */
  endUs: number = Number.POSITIVE_INFINITY;
  /** From when on a quorum of nodes was up and without a key; the first time after it was had. */
  freeUs: number = Number.POSITIVE_INFINITY;
  /** Nodes that had the key of `c1` when it got the lock. */
  votes = 0;
  private readonly quorum: number;
  private readonly stored: number[];
  private readonly up: boolean[];

  constructor(setup: Setup) {
    super(setup);
    this.quorum = quorumOf(setup.policy, setup.cluster.nodes);
    this.stored = Array.from({ length: setup.cluster.nodes }, () => 0);
    this.up = this.stored.map(() => true);
  }

  override claimed(lock: SimLock, now: TrueTime): void {
    super.claimed(lock, now);
    if (lock.client.index !== 0 || this.heldAtUs !== null) return;
    this.heldAtUs = now;
    this.votes = this.stored.filter((token) => token === lock.token).length;
    this.look(now);
  }

  override ended(lock: SimLock, cause: HoldEndCause, now: TrueTime): void {
    super.ended(lock, cause, now);
    if (lock.client.index === 0) this.endUs = Math.min(now, lock.endsAt);
  }

  override keySet(node: number, key: number, token: number, now: TrueTime): void {
    super.keySet(node, key, token, now);
    this.stored[node] = token;
  }

  override keyGone(node: number, key: number, token: number, cause: KeyRemovalCause, by: number, now: TrueTime): void {
    super.keyGone(node, key, token, cause, by, now);
    if (this.stored[node] === token) this.stored[node] = 0;
    this.look(now);
  }

  override nodeDown(node: number, now: TrueTime, power: boolean): void {
    super.nodeDown(node, now, power);
    this.up[node] = false;
  }

  override nodeUp(node: number, now: TrueTime): void {
    super.nodeUp(node, now);
    this.up[node] = true;
    this.look(now);
  }

  private look(now: TrueTime): void {
    if (this.heldAtUs === null || this.freeUs !== Number.POSITIVE_INFINITY) return;
    let free = 0;
    for (const [node, token] of this.stored.entries()) if (token === 0 && this.up[node] === true) free++;
    if (free >= this.quorum) this.freeUs = now;
  }
}

/** Runs a schedule under this set-up, watched. */
export function watchHold(schedule: Schedule, setup: Setup, show: (world: WatchedWorld) => void = () => {}): HoldWatch {
  const watch = new HoldWatch(setup);
  const world = new World(setup, new ScriptedAdversary(schedule), watch, false);
  show(world);
  world.run();
  return watch;
}
