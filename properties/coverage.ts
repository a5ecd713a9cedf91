import type { Fault } from '../scenarios/index.js';
import {
  type HoldEndCause,
  type KeyRemovalCause,
  policyFor,
  type Setup,
  type SimLock,
  type TrueTime,
} from '../sim/index.js';
import type { HolderRegistry } from './monitors/holder-registry.js';
import { empty } from './monitors/remove.js';

/** Every situation that is counted; `SITUATIONS` has them in words. */
const NOTHING = {
  claims: 0,
  contendedClaims: 0,
  extensions: 0,
  failures: 0,
  releases: 0,
  expiries: 0,
  writes: 0,
  endsUnseen: 0,
  expiriesInExtension: 0,
  claimsByOwnClocks: 0,
  claimsAtWrongRates: 0,
  votesLostInClaim: 0,
  votesForgottenInClaim: 0,
  crashesInClaim: 0,
  powerLossesInClaim: 0,
  shutdownsInClaim: 0,
  restartsInClaim: 0,
  pausesInClaim: 0,
  suspendsInClaim: 0,
  clientCrashesInClaim: 0,
  wallStepsInClaim: 0,
  clockStepsInClaim: 0,
  clockRatesInClaim: 0,
  failoversInClaim: 0,
  reconfigurationsInClaim: 0,
  forgettingsInClaim: 0,
  refusalsInClaim: 0,
  partitionsInClaim: 0,
  lossesInClaim: 0,
  copiesInClaim: 0,
  resendsInClaim: 0,
  textsInClaim: 0,
  delaysInClaim: 0,
};

/** The name of a situation that is counted. */
export type CoveragePoint = keyof typeof NOTHING;

/** How often each situation was there. */
export type Counts = Record<CoveragePoint, number>;

/** Every situation, 0 times. */
export function noCounts(): Counts {
  return { ...NOTHING };
}

/** How a fault of each kind is counted when it meets a claim. */
const BY_FAULT: Readonly<Record<Fault['kind'], CoveragePoint>> = {
  crash: 'crashesInClaim',
  pause: 'pausesInClaim',
  suspend: 'suspendsInClaim',
  'client-crash': 'clientCrashesInClaim',
  'clock-step': 'clockStepsInClaim',
  'clock-drift': 'clockRatesInClaim',
  failover: 'failoversInClaim',
  reconfigure: 'reconfigurationsInClaim',
  'data-loss': 'forgettingsInClaim',
  'error-replies': 'refusalsInClaim',
  partition: 'partitionsInClaim',
};

function hasWrongRates({ cluster }: Setup): boolean {
  for (const { ratePpm } of cluster.clocks) if (ratePpm !== 0) return true;
  return false;
}

/** Counts the situations of one run into a total that many runs share. */
export class Coverage {
  private counts: Counts;
  private readonly roster: HolderRegistry;
  private readonly contended: SimLock[] = [];
  private wrongRates: boolean;
  private setup: Setup;

  constructor(setup: Setup, counts: Counts, roster: HolderRegistry) {
    this.setup = setup;
    this.counts = counts;
    this.roster = roster;
    this.wrongRates = hasWrongRates(setup);
  }

  /** For another run. */
  reset(setup: Setup, counts: Counts): void {
    this.setup = setup;
    this.counts = counts;
    this.wrongRates = hasWrongRates(setup);
    empty(this.contended);
  }

  /** A client begins to ask for a lock. */
  asked(lock: SimLock): void {
    for (const holder of this.roster.holders) this.contend(holder, lock);
  }

  private contend(holder: SimLock, other: SimLock): void {
    if (holder === other || other.gone || this.contended.includes(holder)) return;
    if (!holder.resources.some((key) => other.resources.includes(key))) return;
    this.contended.push(holder);
    this.counts.contendedClaims++;
  }

  claimed(lock: SimLock): void {
    this.counts.claims++;
    if (this.wrongRates) this.counts.claimsAtWrongRates++;
    if (this.setup.views?.[lock.client.index]?.timing !== undefined) this.counts.claimsByOwnClocks++;
    for (const other of this.roster.waiters) this.contend(lock, other);
  }

  extended(): void {
    this.counts.extensions++;
  }

  failed(): void {
    this.counts.failures++;
  }

  ended(lock: SimLock, cause: HoldEndCause, now: TrueTime): void {
    if (cause === 'released') this.counts.releases++;
    else if (cause === 'expired') {
      this.counts.expiries++;
      if (lock.client.pausedUntil === now) this.counts.endsUnseen++;
    }
  }

  keyGone(owner: SimLock | null, cause: KeyRemovalCause, now: TrueTime): void {
    if (owner === null) return;
    if (cause === 'expired' && owner.state.extension.isOpen) this.counts.expiriesInExtension++;
    if (!owner.believes(now)) return;
    this.counts.votesLostInClaim++;
    if (cause === 'forgotten') this.counts.votesForgottenInClaim++;
  }

  written(): void {
    this.counts.writes++;
  }

  nodeUp(now: TrueTime): void {
    if (this.isInClaim(now)) this.counts.restartsInClaim++;
  }

  /** A fault strikes; a client that it is about, or -1. */
  faultStrikes(fault: Fault, now: TrueTime, client: number): void {
    if (!this.isInClaim(now)) return;
    const { kind } = fault;
    const unused = kind === 'clock-step' && this.isUnusedWall(client);
    if (kind === 'crash') {
      if (fault.power === true) this.counts.powerLossesInClaim++;
      if (fault.clean === true) this.counts.shutdownsInClaim++;
    }
    this.counts[unused ? 'wallStepsInClaim' : BY_FAULT[kind]]++;
  }

  /** Whether a process is a client that reads another clock than the one that can be set. */
  private isUnusedWall(client: number): boolean {
    return client >= 0 && policyFor(this.setup, client).habits.clock !== 'wall';
  }

  private isInClaim(now: TrueTime): boolean {
    for (const lock of this.roster.holders) if (lock.believes(now)) return true;
    return false;
  }
}
