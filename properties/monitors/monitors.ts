import type { Answer, Command, NodeSet } from '../../core/index.js';
import type { Fault, PropertyId } from '../../scenarios/index.js';
import {
  type HoldEndCause,
  type KeyRemovalCause,
  Observer,
  type Setup,
  type SimLock,
  type TrueTime,
  type WatchedWorld,
} from '../../sim/index.js';
import { type Counts, Coverage, noCounts } from '../coverage.js';
import type { Violation } from '../violation.js';
import { type AttemptRecord, AttemptRegistry } from './attempt-registry.js';
import { Availability } from './availability.js';
import { Counters } from './counters.js';
import { HolderRegistry } from './holder-registry.js';
import { instant } from './instant.js';
import { KeyLifetime } from './key-lifetime.js';
import { Liveness } from './liveness/liveness.js';
import { MutualExclusion } from './mutual-exclusion.js';
import { NearMissMeter } from './near-miss-meter.js';
import { NoStaleWrite } from './no-stale-write.js';
import type { Outage } from './outage.js';
import { Protocol } from './protocol.js';
import { QuorumBacked } from './quorum-backed.js';
import { empty } from './remove.js';

const NO_LOCKS: readonly SimLock[] = [];

/** What is violated for a time; all else is violated in an instant. */
const LASTING: readonly PropertyId[] = ['mutual-exclusion', 'quorum-backed'];

/** All monitors of a run, behind one observer. */
export class Monitors extends Observer {
  private readonly reported: Violation[] = [];
  private availability: Availability | null;
  readonly closeness: NearMissMeter = new NearMissMeter();
  readonly counters: Counters;
  /** Writes that reached the resource; without any, effects are unchecked. */
  writes = 0;
  private world: WatchedWorld | null = null;
  private readonly mutualExclusion: MutualExclusion;
  private readonly quorumBacked: QuorumBacked;
  private readonly staleWrites: NoStaleWrite;
  private readonly ledger: AttemptRegistry;
  private readonly protocol: Protocol;
  private readonly keyLifetime: KeyLifetime;
  private readonly liveness: Liveness;
  private readonly roster: HolderRegistry;
  private readonly coverage: Coverage;
  private lockDelayMs: number;

  /**
   * @param counts - Takes in what the run went through.
   * @param outages - Whether to tell when nobody can acquire as well. A search does not ask: no property is about that.
   */
  constructor(setup: Setup, counts: Counts = noCounts(), outages = false) {
    super();
    this.lockDelayMs = setup.policy.settings.lockDelayMs;
    this.roster = new HolderRegistry();
    this.counters = new Counters(setup.cluster.nodes);
    this.coverage = new Coverage(setup, counts, this.roster);
    const report = (violation: Violation): void => {
      this.reported.push(violation);
    };
    const resourceOf = (key: number): string => this.world?.resourceOf(key) ?? '?';
    this.mutualExclusion = new MutualExclusion(report, resourceOf);
    this.quorumBacked = new QuorumBacked(report, resourceOf, this.closeness);
    this.staleWrites = new NoStaleWrite(setup.resource, report);
    this.ledger = new AttemptRegistry(setup.policy);
    this.availability = outages ? new Availability(setup, this.roster, () => this.world?.clients ?? []) : null;
    const ownerOf = (token: number): SimLock | null => this.world?.ownerOf(token) ?? null;
    this.liveness = new Liveness(setup, this.ledger, this.roster, report);
    this.protocol = new Protocol(setup, this.ledger, this, report, ownerOf);
    this.keyLifetime = new KeyLifetime(setup, report, ownerOf);
  }

  /** For another run, with what this one has told of forgotten. Tells of no outages. */
  reset(setup: Setup, counts: Counts = noCounts()): void {
    const { policy, cluster, resource } = setup;
    this.slowUs = Number.POSITIVE_INFINITY;
    this.writes = 0;
    this.world = null;
    this.availability = null;
    this.lockDelayMs = policy.settings.lockDelayMs;
    empty(this.reported);
    this.roster.reset();
    this.counters.reset(cluster.nodes);
    this.closeness.reset();
    this.coverage.reset(setup, counts);
    this.mutualExclusion.reset();
    this.quorumBacked.reset();
    this.staleWrites.reset(resource);
    this.ledger.reset(policy);
    this.liveness.reset(setup);
    this.protocol.reset(setup);
    this.keyLifetime.reset(setup);
  }

  /** So many may hold one resource at once, as of a semaphore. */
  admit(most: number): void {
    this.mutualExclusion.admits = most;
  }

  /** What does not hold, in the order in which it began. What lasts, and ended in the instant in which it began, never was. */
  get violations(): readonly Violation[] {
    return this.reported.filter(({ property, atUs, untilUs }) => untilUs !== atUs || !LASTING.includes(property));
  }

  /** The times in which nobody could acquire, where that was asked for. */
  get outages(): readonly Outage[] {
    return this.availability?.outages ?? [];
  }

  override begins(world: WatchedWorld): void {
    this.world = world;
    this.liveness.watch(world);
    this.keyLifetime.begins(world);
    this.availability?.begins(world.now);
  }

  // ——— what the protocol tells of the keys ———

  /** A key that nobody has any use for has come to a node, or has gone for a cause. */
  orphanChanged(use: AttemptRecord, node: number, key: number, cause: KeyRemovalCause | null, now: TrueTime): void {
    if (cause === null) {
      use.orphanedAt = Math.max(use.orphanedAt ?? 0, now);
      this.availability?.orphanCame(use, use.orphanedAt, node, key);
    } else this.availability?.orphanWent(use, now);
    const { attempt, lock } = use;
    if (cause !== 'deleted' || attempt < lock.state.attempt.number) this.liveness.orphanChanged(now);
  }

  /** Somebody is about to begin with a token that was used before. */
  takesOver(now: TrueTime): void {
    this.availability?.catchUp(now);
  }

  /** Keys that nobody had any use for are another's now. */
  takenOver(use: AttemptRecord, now: TrueTime): void {
    this.availability?.orphanWent(use, now);
  }

  /** An attempt has failed, or its lock was released. */
  over(use: AttemptRecord, now: TrueTime): void {
    this.orphaned(use, now);
  }

  /** From `at` on, nobody has any use for the keys of an attempt. */
  private orphaned(use: AttemptRecord, at: number): void {
    if (use.orphanedAt !== null && use.orphanedAt <= at) return;
    use.orphanedAt = at;
    this.availability?.orphaned(use, at);
  }

  /** The release of a lock is called. */
  releasing(lock: SimLock, now: TrueTime): void {
    this.liveness.releasing(lock, now);
  }

  override attempted(lock: SimLock, now: TrueTime): void {
    this.liveness.catchUp(now);
    if (!this.roster.attempted(lock, now)) {
      this.liveness.retried(lock, now);
      return;
    }
    this.coverage.asked(lock);
    this.availability?.asked(lock.plan.ttlMs);
    this.liveness.asked(lock, now);
    this.slowUs = this.liveness.slowUs;
  }

  override claimed(lock: SimLock, now: TrueTime): void {
    this.availability?.catchUp(now);
    this.liveness.catchUp(now);
    this.roster.claimed(lock);
    this.coverage.claimed(lock);
    // What is wrong with the claim itself comes before what follows from it.
    this.protocol.claimed(lock, now);
    this.believes(lock, now, true);
  }

  override extends(lock: SimLock, now: TrueTime): void {
    this.availability?.catchUp(now);
    this.liveness.catchUp(now);
    this.lapse(lock, now);
  }

  /** When a claim ends is about to change. */
  private lapse(lock: SimLock, now: TrueTime): void {
    this.quorumBacked.lapse(lock, now);
    this.mutualExclusion.lapse(lock, now);
  }

  override extended(lock: SimLock, now: TrueTime): void {
    if (!lock.believes(now)) {
      this.quorumBacked.ended(lock, now, now);
      this.mutualExclusion.cut(lock, now);
    }
    this.roster.claimed(lock);
    this.coverage.extended();
    this.protocol.extended(lock, now);
    this.believes(lock, now, false);
  }

  private believes(lock: SimLock, now: TrueTime, isFirst: boolean): void {
    this.quorumBacked.check(lock, now);
    this.mutualExclusion.claimed(lock, now);
    const use = this.ledger.of(lock.token, lock);
    this.availability?.claimed(lock, use, now, isFirst);
    if (use !== undefined) use.orphanedAt = null;
    this.liveness.claimed(lock, now);
  }

  override ended(lock: SimLock, cause: HoldEndCause, now: TrueTime): void {
    this.availability?.catchUp(now);
    this.liveness.catchUp(now);
    this.roster.ended(lock, now);
    this.coverage.ended(lock, cause, now);
    if (cause === 'released') this.protocol.untold(lock, now);
    this.quorumBacked.ended(lock, now);
    this.mutualExclusion.ended(lock, now);
    this.availability?.ended(lock, now);
    const use = cause === 'expired' ? this.ledger.of(lock.token, lock) : undefined;
    // Until its TTL is over, a key is there for a reason.
    if (use !== undefined) this.orphaned(use, Math.max(now, use.keysUntil));
    this.liveness.ended(lock, now);
  }

  override failed(lock: SimLock, reason: string, now: TrueTime): void {
    this.liveness.catchUp(now);
    this.roster.stopped(lock);
    this.coverage.failed();
    this.protocol.failed(lock, reason, now);
    this.liveness.failed(lock, reason, now);
  }

  override released(lock: SimLock, now: TrueTime): void {
    this.liveness.catchUp(now);
    this.protocol.released(lock, now);
    this.liveness.released(lock);
  }

  override troubled(until: TrueTime, now: TrueTime): void {
    this.liveness.troubled(until, now);
  }

  override sent(lock: SimLock, to: NodeSet, command: Command, now: TrueTime): void {
    // An attempt may be over by this, and a lock released.
    this.liveness.catchUp(now);
    if (command.operation === 'extend') this.availability?.asked(command.ttlMs - this.lockDelayMs);
    this.protocol.sent(lock, to, command, now);
  }

  override executes(_node: number, command: Command, _now: TrueTime): void {
    this.protocol.executes(command);
  }

  override executed(node: number, command: Command, answer: Answer, now: TrueTime): void {
    this.keyLifetime.executed(node, command, answer, now);
    this.protocol.executed(node, command, answer, now);
  }

  override hears(lock: SimLock, node: number, command: Command, answer: Answer): void {
    this.protocol.hears(lock, node, command, answer);
  }

  override answered(lock: SimLock, node: number, command: Command, now: TrueTime): void {
    this.protocol.answered(lock, node, command, now);
  }

  override keySet(node: number, key: number, token: number, now: TrueTime): void {
    this.availability?.catchUp(now);
    this.liveness.catchUp(now);
    this.quorumBacked.keySet(key, token, now);
    this.keyLifetime.keySet(node, key, token, now);
    this.protocol.keySet(node, key, token, now);
  }

  override keyGone(node: number, key: number, token: number, cause: KeyRemovalCause, by: number, now: TrueTime): void {
    this.availability?.catchUp(now);
    this.liveness.catchUp(now);
    const owner = this.world?.ownerOf(token) ?? null;
    this.coverage.keyGone(owner, cause, now);
    this.quorumBacked.keyGone(key, token, owner, now);
    if (this.ledger.shares) this.othersLoseVote(owner, key, token, now);
    // That it was there too long began before it went.
    this.keyLifetime.keyGone(node, key, now);
    this.protocol.keyGone(node, key, token, cause, by, now);
  }

  /** A node lost a key with a token that several locks may have. */
  private othersLoseVote(owner: SimLock | null, key: number, token: number, now: TrueTime): void {
    for (const lock of this.roster.holders) {
      if (lock !== owner && lock.token === token) this.quorumBacked.otherVoteLost(lock, key, now);
    }
  }

  override faultStrikes(fault: Fault, now: TrueTime, node: number, client: number): void {
    this.coverage.faultStrikes(fault, now, client);
    this.liveness.strikes(fault, now, node, client);
    switch (fault.kind) {
      case 'client-crash':
        this.clientDies(client, now);
        break;
      case 'clock-step':
      case 'clock-drift':
      case 'suspend':
        if (client >= 0) this.clockChanges(client, now);
        else if (node >= 0) this.keyLifetime.check(node, now);
        break;
      default:
    }
  }

  /** Nobody will have any use for what it has set. */
  private clientDies(client: number, now: TrueTime): void {
    for (const lock of this.locksOf(client)) {
      const use = this.ledger.latestOf(lock);
      if (use !== undefined) this.orphaned(use, now);
    }
  }

  private locksOf(client: number): readonly SimLock[] {
    return client < 0 ? NO_LOCKS : (this.world?.clients[client]?.locks ?? NO_LOCKS);
  }

  private clockChanges(client: number, now: TrueTime): void {
    this.availability?.clockChanges(client, now);
    for (const lock of this.roster.holders) if (lock.client.index === client) this.lapse(lock, now);
  }

  override clientClockChanged(client: number, now: TrueTime): void {
    for (const lock of this.locksOf(client)) this.quorumBacked.check(lock, now);
    this.mutualExclusion.clockChanged(client, now);
    this.availability?.clockChanged(now);
  }

  override counterSet(node: number, counter: number, now: TrueTime): void {
    this.counters.counterSet(node, counter);
    this.liveness.counterSet(node, counter, now);
  }

  override tookOver(node: number, now: TrueTime): void {
    this.keyLifetime.tookOver(node, now);
  }

  override nodeDown(node: number, now: TrueTime, _power: boolean): void {
    this.counters.processEnds(node);
    this.availability?.nodeDown(node, now);
    this.keyLifetime.nodeDown(node, now);
    this.liveness.nodeDown(node);
  }

  override nodeUp(node: number, now: TrueTime): void {
    this.counters.processEnds(node);
    this.coverage.nodeUp(now);
    this.availability?.nodeUp(node, now);
    this.keyLifetime.nodeUp(node, now);
    this.liveness.nodeUp(node, now);
  }

  override membershipChanged(now: TrueTime): void {
    this.availability?.membershipChanged(now);
  }

  override written(lock: SimLock, index: number, accepted: boolean, now: TrueTime): void {
    this.writes++;
    this.coverage.written();
    this.closeness.written(lock, now);
    this.staleWrites.written(lock, index, now);
    this.protocol.written(lock, accepted, now);
  }

  override finished(now: TrueTime): void {
    this.mutualExclusion.finished(now);
    this.quorumBacked.finished(now);
    this.availability?.finished(now);
    this.liveness.finished(now);
    this.keyLifetime.finished(now);
    for (const lock of this.roster.holders) this.protocol.untold(lock, now);
    if (this.world?.isStuck === true) {
      const detail = 'clients try again and again, and next to no time passes';
      this.reported.push(instant('progress', 'liveness', this.roster.waiters, now, detail));
    }
  }
}
