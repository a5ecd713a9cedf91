import { size } from '../../../core/index.js';
import { deviates, driftAllowanceUs, type Policy } from '../../../deviations/index.js';
import type { Fault } from '../../../scenarios/index.js';
import type { Setup, SimLock, TrueTime, WatchedWorld } from '../../../sim/index.js';
import type { AttemptRegistry } from '../attempt-registry.js';
import type { HolderRegistry } from '../holder-registry.js';
import { instant, type Report } from '../instant.js';
import { Durations } from './durations.js';
import { PendingCalls } from './pending-calls.js';
import { Progress } from './progress.js';
import { hasEffect, StablePeriod } from './stable-period.js';
import { UnboundedHold } from './unbounded-hold.js';
import { UncontendedWait } from './uncontended-wait.js';

const NEVER = Number.POSITIVE_INFINITY;

/**
 * The monitors of liveness, with what they share: who asks for locks and who holds them, and since when nothing has been
 * disturbed. Their deadlines are looked at before anything later happens, so that a violation has its exact time.
 */
export class Liveness {
  /** Messages that take longer than this one way are a disturbance, µs. */
  slowUs: number = NEVER;
  private policy: Policy;
  /** Round trips that one command may take: where scripts go by their hash, a new process asks for the text first. */
  private exchanges: number;
  private readonly report: Report;
  private readonly durations: Durations;
  private readonly calm: StablePeriod;
  private readonly loneWait: UncontendedWait;
  private readonly calls: PendingCalls;
  private readonly progress: Progress;
  private readonly holds: UnboundedHold;
  private readonly roster: HolderRegistry;
  /** No deadline is earlier; most are later by now, because a disturbance only ever puts them off. */
  private nextAt = NEVER;
  private world: WatchedWorld | null = null;

  constructor(setup: Setup, ledger: AttemptRegistry, roster: HolderRegistry, report: Report) {
    this.roster = roster;
    const { policy, cluster } = setup;
    this.policy = policy;
    this.exchanges = cluster.scripts === 'by-hash' ? 2 : 1;
    this.report = report;
    this.calm = new StablePeriod(cluster.nodes, cluster.clocks);
    this.durations = new Durations(policy);
    this.loneWait = new UncontendedWait(this.durations, this.calm, ledger, report);
    this.calls = new PendingCalls(policy, this.durations, this.calm, report);
    this.progress = new Progress(this.calm, report);
    this.holds = new UnboundedHold(policy, this.calm, report);
  }

  /** For another run. */
  reset({ policy, cluster }: Setup): void {
    this.slowUs = NEVER;
    this.policy = policy;
    this.exchanges = cluster.scripts === 'by-hash' ? 2 : 1;
    this.nextAt = NEVER;
    this.world = null;
    this.calm.reset(cluster.nodes, cluster.clocks);
    this.durations.reset(policy);
    this.loneWait.reset();
    this.calls.reset(policy);
    this.progress.reset();
    this.holds.reset(policy);
  }

  watch(world: WatchedWorld): void {
    this.world = world;
  }

  // ——— what clients do; {@link catchUp} comes before, then the roster, then these ———

  /** A client begins to ask for a lock. */
  asked(lock: SimLock, now: TrueTime): void {
    this.slowUs = Math.min(this.slowUs, this.slow(lock));
    this.progress.asked(lock, now);
    this.calls.acquiring(lock, now);
    this.loneWait.asked(lock);
    this.loneWait.changed(now);
    this.nextAt = Math.min(this.nextAt, this.due());
  }

  /** The watch over those who wait alone begins again, which may be sooner than it would have looked again. */
  private changed(now: number): void {
    this.loneWait.changed(now);
    this.nextAt = Math.min(this.nextAt, this.loneWait.dueAt);
  }

  /** It asks once more. */
  retried(lock: SimLock, now: TrueTime): void {
    this.calm.settle(now);
    this.progress.failed(lock, now, this.isOpen);
    this.calls.acquiring(lock, now);
    this.nextAt = Math.min(this.nextAt, this.calls.dueAt);
  }

  /** A command whose messages take longer than this each way uses up a time-out, or the validity. */
  private slow({ plan, list }: SimLock): number {
    const { ttlMs } = plan;
    const { nodeTimeoutUs, minValidityUs } = this.policy.settings;
    const validityUs = ttlMs * 1000 - driftAllowanceUs(this.policy, ttlMs * 1000) - minValidityUs;
    const roundTripUs = Math.min(nodeTimeoutUs ?? NEVER, validityUs / (this.durations.asksInTurn ? list.places : 1));
    return Math.max(0, Math.floor((roundTripUs - 1) / 2 / this.exchanges));
  }

  claimed(lock: SimLock, now: TrueTime): void {
    this.calls.returned(lock);
    this.holds.claimed(lock, now);
    this.nextAt = Math.min(this.nextAt, this.holds.dueAt);
    this.progress.left(lock);
    this.progress.moved();
    this.changed(now);
  }

  ended(lock: SimLock, now: TrueTime): void {
    this.holds.ended(lock);
    this.progress.moved();
    this.changed(now);
  }

  failed(lock: SimLock, reason: string, now: TrueTime): void {
    this.calls.returned(lock);
    this.calm.settle(now);
    this.progress.failed(lock, now, this.isOpen);
    // No further try could succeed.
    if (reason !== 'counters-lost') this.checkTries(lock, now);
    this.changed(now);
  }

  /** A client that gives up has made all its tries, and has paused between them. */
  private checkTries(lock: SimLock, now: TrueTime): void {
    const { tries, retryDelayUs, retryJitterUs, acquireTimeoutUs } = this.policy.settings;
    // Who has only so much time may use it up first.
    if (acquireTimeoutUs !== null) return;
    const { client, state } = lock;
    const made = state.attempt.number + 1;
    if (tries === null || made < tries) {
      const detail = `${client.name} gives up after ${made} of ${tries ?? 'endless'} tries`;
      this.report(instant('fault-tolerance', 'liveness', [lock], now, detail));
      return;
    }
    const leastUs = (tries - 1) * Math.max(0, retryDelayUs - retryJitterUs);
    const tookUs = client.clock.read(now) - state.calledAt;
    if (tookUs >= leastUs) return;
    const detail = `${client.name} uses up its ${tries} tries in ${tookUs} us, though it is to pause for at least ${leastUs} us between them`;
    this.report(instant('deadlock-free', 'liveness', [lock], now, detail));
  }

  /** The release of a lock is called. */
  releasing(lock: SimLock, now: TrueTime): void {
    this.calls.releasing(lock, now);
    // Of a lock that was lost, too: its keys may go now.
    this.changed(now);
    this.nextAt = Math.min(this.nextAt, this.calls.dueAt);
  }

  /** The release of a lock has returned. */
  released(lock: SimLock): void {
    this.calls.returned(lock);
  }

  // ——— what gets in the way ———

  /** A fault strikes, on this node or client; -1 for none. */
  strikes(fault: Fault, now: TrueTime, node: number, client: number): void {
    const { world } = this;
    if (world === null || !hasEffect(fault, world, node, client)) return;
    this.catchUp(now);
    this.calm.strikes(fault, now, world, node);
    switch (fault.kind) {
      case 'client-crash':
        this.dies(client, now);
        break;
      case 'pause':
      case 'suspend':
        this.calls.delayed(client, now + fault.forUs);
        break;
      case 'clock-step':
      case 'clock-drift':
        this.calls.delayed(client, now);
        break;
      default:
    }
  }

  private dies(client: number, now: TrueTime): void {
    for (const lock of client < 0 ? [] : (this.world?.clients[client]?.locks ?? [])) {
      this.calls.returned(lock);
      this.roster.stopped(lock);
      this.progress.left(lock);
    }
    this.changed(now);
  }

  counterSet(node: number, counter: number, now: TrueTime): void {
    if (deviates(this.policy, 'counter-kept', 'counter-from-zero')) return;
    this.catchUp(now);
    this.calm.counterSet(node, counter, now);
  }

  nodeDown(node: number): void {
    this.calm.nodeDown(node);
  }

  nodeUp(node: number, now: TrueTime): void {
    this.catchUp(now);
    this.calm.nodeUp(node, now);
  }

  /** The network loses a message, copies it or holds it up, until then. */
  troubled(until: TrueTime, now: TrueTime): void {
    if (this.roster.waiters.length === 0 && until <= now) return;
    this.catchUp(now);
    this.calm.disturb(now, until);
  }

  /** A key that nobody has any use for comes, or goes without having been deleted in time: it was in the way until then. */
  orphanChanged(now: TrueTime): void {
    if (this.roster.waiters.length === 0) return;
    this.troubled(now, now);
    this.changed(now);
  }

  finished(now: TrueTime): void {
    this.catchUp(now);
  }

  // ——— deadlines ———

  /** Looks at every deadline before `now`, and has to come before anything else that happens now. A disturbance that ends in the instant of a deadline comes first. */
  catchUp(now: number): void {
    if (this.nextAt >= now) return;
    this.nextAt = this.due();
    while (this.nextAt < now) {
      if (this.calm.nextEnd <= this.nextAt) this.calm.end();
      else this.look(this.nextAt);
      this.nextAt = this.due();
    }
  }

  private due(): number {
    const wait = this.roster.waiters.length > 0 ? this.loneWait.dueAt : NEVER;
    return Math.min(wait, this.calls.dueAt, this.holds.dueAt);
  }

  private look(due: number): void {
    if (this.calls.dueAt <= due) this.calls.check(due);
    if (this.holds.dueAt <= due) this.holds.check(due);
    if (this.world !== null && this.roster.waiters.length > 0 && this.loneWait.dueAt <= due) {
      this.loneWait.check(due, this.roster, this.world);
    }
  }

  /** Whether a majority is usable for all of them, and free of other keys that are there for a reason. */
  private readonly isOpen = (rivals: readonly SimLock[]): boolean => {
    const { world } = this;
    if (world === null) return false;
    return rivals.every((rival) => {
      const usable = this.calm.usable(rival, world, world.now);
      return size(usable) >= rival.list.majority && this.loneWait.freeAt(rivals, usable, world.now) === 0;
    });
  };
}
