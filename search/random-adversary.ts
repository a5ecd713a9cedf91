import { type Counts, noCounts } from '../properties/coverage.js';
import type { ExtensionPlan, Fault, LockPlan, WritePlan } from '../scenarios/index.js';
import type {
  Adversary,
  DecisionPoint,
  Direction,
  FateSlot,
  Message,
  RandomStream,
  SimLock,
  StreamSource,
  WorldView,
} from '../sim/index.js';
import { CorrelatedDisruption } from './correlated-disruption.js';
import type { FaultModel } from './fault-model.js';
import { FaultPlan } from './fault-plan.js';
import { instantsAhead, releasesAhead } from './instants.js';
import type { RunConfig } from './run-config.js';

const PERCENT = 10_000;
/** Locks that one client asks for in a run, at most. */
const MOST_LOCKS = 4;
/** How long a lock is held, and nobody asks for it then, where it is handed on quickly, µs. */
const HANDOVER_US = 20_000;

/** The concerns that draw from streams of their own. */
const Concern = { runConfig: 0, work: 1, fate: 2, fault: 3, jitter: 4, guide: 5 } as const;

/** The stream from which a run's run config is drawn. */
export function premiseStream(streams: StreamSource, run: number): RandomStream {
  return streams.stream(run, Concern.runConfig);
}

/**
 * Draws every choice while seeing the state. Bugs of leases live at particular instants, so faults strike where claims
 * are, clients come back when keys expire, and locks are held to their end more often than not.
 */
export class RandomAdversary implements Adversary {
  private readonly faultModel: FaultModel;
  private readonly runConfig: RunConfig;
  private readonly work: RandomStream;
  private readonly fates: RandomStream;
  private readonly jitter: RandomStream;
  private readonly plan: FaultPlan;
  private readonly counts: Counts;
  private readonly locksLeft: number[];
  private readonly reach: CorrelatedDisruption | null;
  private wrote = false;
  private planning = false;
  private planned: Fault[] = [];

  constructor(
    faultModel: FaultModel,
    runConfig: RunConfig,
    streams: StreamSource,
    run: number,
    counts: Counts = noCounts(),
  ) {
    this.faultModel = faultModel;
    this.counts = counts;
    this.runConfig = runConfig;
    this.work = streams.stream(run, Concern.work);
    this.fates = streams.stream(run, Concern.fate);
    this.jitter = streams.stream(run, Concern.jitter);
    this.plan = new FaultPlan(faultModel, runConfig, streams.stream(run, Concern.fault));
    const most = this.work.between(1, MOST_LOCKS) * (runConfig.handovers ? 3 : 1);
    this.reach = runConfig.handovers ? new CorrelatedDisruption(faultModel, this.work) : null;
    const workers = runConfig.patience?.workers ?? runConfig.setup.clients.length;
    this.locksLeft = runConfig.setup.clients.map((_, client) => (client < workers ? most : 0));
  }

  /** Whether the assumption that this run is about has been stressed. */
  get hasStressed(): boolean {
    return this.plan.hasStressed || this.wrote;
  }

  // ——— work ———

  nextLock(client: number, view: WorldView): LockPlan | null {
    const left = this.locksLeft[client] ?? 0;
    if (left === 0 || isBusy(view.clients[client]?.locks)) return null;
    this.locksLeft[client] = left - 1;
    this.reach?.next(client);
    const { work, runConfig } = this;
    const { ttlMs } = runConfig;
    const ttl = ttlMs * 1000;
    if (runConfig.guardUs !== null && work.chance(70 * PERCENT)) {
      this.wrote = true;
      const write = this.drawWrite(ttl, runConfig.guardUs);
      // A resource that looks at who writes may treat a second write differently.
      const writes = this.faultModel.resource === 'none' ? [write] : [write, write];
      return {
        atUs: this.drawArrival(client, view),
        resources: ['a'],
        ttlMs,
        holdUs: null,
        extensions: [],
        writes,
        jitterPpm: [],
      };
    }
    const holdUs = this.drawHold(ttl);
    return {
      atUs: this.drawArrival(client, view),
      resources: ['a'],
      ttlMs,
      holdUs,
      extensions:
        runConfig.stressed !== 'data-loss' && work.chance(25 * PERCENT) ? this.drawExtensions(ttl, holdUs) : [],
      writes: [],
      jitterPpm: [],
    };
  }

  private drawHold(ttl: number): number | null {
    const { work, runConfig } = this;
    if (runConfig.handovers) return work.below(work.pick([HANDOVER_US, HANDOVER_US / 10]));
    if (!runConfig.tactics.structured) return work.below(2 * ttl);
    const kind = work.below(10);
    if (kind < 5) return null;
    if (kind < 7) return work.below(20_000);
    return kind < 9 ? work.below(ttl) : ttl + work.below(ttl);
  }

  /** Checked when no more is left of the claim than the write needs, if that can be told beforehand. */
  private drawWrite(ttl: number, allowedUs: number): WritePlan {
    const { work, runConfig, plan } = this;
    const thinkUs = work.pick([1_000, 1_000, 20_000]);
    // In time means before the claim ends, not when it does.
    const guardUs = thinkUs + allowedUs + 1;
    const latest = ttl - runConfig.bounds.stepUs - guardUs;
    const early = runConfig.tactics.biased
      ? work.pick([0, 0, 2 * runConfig.leastDelayUs, work.below(1 + 2 * runConfig.mostDelayUs), work.below(100_000)])
      : work.below(latest + 1);
    const checkAfterUs = Math.max(0, latest - early);
    const delayUs = work.chance(50 * PERCENT) ? plan.latenessUs : work.below(plan.latenessUs + 1);
    return { checkAfterUs, guardUs, sendAfterUs: checkAfterUs + thinkUs, delayUs: Math.max(0, delayUs - plan.pauseUs) };
  }

  /** Late in the claim, where extensions are delicate; soon where that is released soon. */
  private drawExtensions(ttl: number, holdUs: number | null): ExtensionPlan[] {
    const { work, runConfig } = this;
    if (runConfig.handovers)
      return [{ afterUs: work.below(1 + (holdUs ?? HANDOVER_US)), ttlMs: this.drawExtensionMs() }];
    const claim = ttl - runConfig.bounds.stepUs;
    const count = work.between(1, 2);
    if (!runConfig.tactics.biased) {
      const times = Array.from({ length: count }, () => work.below(2 * ttl)).sort((a, b) => a - b);
      return times.map((afterUs) => ({ afterUs, ttlMs: this.drawExtensionMs() }));
    }
    return Array.from({ length: count }, (_, i) => ({
      afterUs: Math.max(0, (i + 1) * (claim - work.pick([1_000, 5_000, 50_000, 500_000])) + work.below(2_000)),
      ttlMs: this.drawExtensionMs(),
    }));
  }

  /** As long as the first time, or so short that it may be over when its answers are there. */
  private drawExtensionMs(): number {
    const { work, runConfig } = this;
    // How far clocks may step depends on the TTL.
    return runConfig.stressed !== 'clock-step' && work.chance(10 * PERCENT) ? work.pick([3, 10, 40]) : runConfig.ttlMs;
  }

  /** At the start all come together; later, soon, or in the instant in which a key or a claim ends. */
  private drawArrival(client: number, view: WorldView): number {
    const { work, runConfig } = this;
    const isFirst = view.clients[client]?.locks.length === 0;
    if (isFirst && runConfig.patience?.standoff && view.now === 0) return 0;
    if (isFirst) return this.onTick(work.chance(50 * PERCENT) ? work.below(3_000) : work.below(50_000));
    if (runConfig.handovers) return this.drawHandover(view);
    if (!runConfig.tactics.biased) return view.now + 1 + work.below(runConfig.ttlMs * 1000);
    const [first, ...rest] = instantsAhead(view);
    if (first !== undefined && work.chance(60 * PERCENT)) {
      const atUs = work.pick([first, ...rest]) - runConfig.leastDelayUs - work.pick([0, 0, 1_000, 100]);
      if (atUs > view.now) return atUs;
    }
    return view.now + 1 + work.below(300_000);
  }

  /** As a lock is released, or at any time soon. */
  private drawHandover(view: WorldView): number {
    const { work } = this;
    const [first, ...rest] = releasesAhead(view);
    if (first === undefined || work.chance(30 * PERCENT)) return view.now + 1 + work.below(HANDOVER_US);
    return work.pick([first, ...rest]) + work.below(5_000);
  }

  /** The last whole millisecond, where node clocks are about to tick at those. */
  private onTick(us: number): number {
    return this.runConfig.sharp ? us - (us % 1000) : us;
  }

  jitterPpm(): number {
    return this.jitter.below(1_000_000);
  }

  // ——— messages ———

  fate(message: Message, direction: Direction, _send: number, fate: FateSlot, view: WorldView): void {
    const { fates, runConfig, faultModel } = this;
    const range = runConfig.mostDelayUs - runConfig.leastDelayUs;
    if (range > 0) fate.delayUs += fates.below(range);
    if (runConfig.patience !== null && view.now >= runConfig.patience.quietFromUs) return;
    if (direction === 'request' && this.reach !== null) this.strand(fate, this.reach.lateUs(message), view);
    if (message.withText && isInClaim(view)) this.counts.textsInClaim++;
    if (runConfig.losses && fates.chance(faultModel.lossPpm)) this.lose(fate, view);
    if (runConfig.copies && fates.chance(faultModel.duplicatePpm)) {
      fate.duplicateDelayUs = fates.below(100_000);
      if (isInClaim(view)) this.counts.copiesInClaim++;
    }
    if (runConfig.resends && direction === 'request' && fates.chance(faultModel.duplicatePpm)) {
      fate.resendAfterUs = fates.below(100_000);
      if (isInClaim(view)) this.counts.resendsInClaim++;
    }
    if (runConfig.spikes && fates.chance(faultModel.spikePpm)) {
      this.delay(fate, fates.chance(70 * PERCENT) ? fates.below(100_000) : fates.below(runConfig.ttlMs * 1_500), view);
    }
  }

  /** A request to a node that its lock does not reach in time. */
  private strand(fate: FateSlot, lateUs: number, view: WorldView): void {
    if (lateUs === Number.POSITIVE_INFINITY) this.lose(fate, view);
    else if (lateUs > 0) this.delay(fate, lateUs, view);
  }

  private delay(fate: FateSlot, byUs: number, view: WorldView): void {
    fate.delayUs += byUs;
    if (isInClaim(view)) this.counts.delaysInClaim++;
  }

  private lose(fate: FateSlot, view: WorldView): void {
    fate.lost = true;
    if (isInClaim(view)) this.counts.lossesInClaim++;
  }

  // ——— faults ———

  nextFault(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null {
    if (!this.planning) {
      this.planning = true;
      if (moment === 'start') this.planned = this.plan.atStart();
      else if (moment === 'claim' && lock !== null) this.planned = this.plan.atClaim(lock, view);
    }
    const next = this.planned.shift();
    if (next === undefined) this.planning = false;
    return next ?? null;
  }
}

/** Whether a client believes that it holds a lock. */
export function isInClaim({ clients, now }: WorldView): boolean {
  for (const { locks } of clients) {
    if (locks.length > 0 && locks[locks.length - 1]?.believes(now)) return true;
  }
  return false;
}

/** A client asks for its next lock when it is done with the last, or that one's process is dead. */
function isBusy(locks: readonly SimLock[] | undefined): boolean {
  const last = locks === undefined || locks.length === 0 ? undefined : locks[locks.length - 1];
  if (last?.gone === true) return false;
  const phase = last?.state.phase;
  return phase !== undefined && phase !== 'failed' && phase !== 'released' && phase !== 'lost';
}
