import type { Fault } from '../scenarios/index.js';
import { type EndCause, type GoneCause, type LockRun, policyFor, type Setup, type TrueTime } from '../sim/index.js';
import { believes } from './monitors/belief.js';
import type { Roster } from './monitors/roster.js';
import type { Weather } from './search/weather.js';

/** What runs went through, counted; a situation that was never hit says nothing about the lock. */
export const SITUATIONS = {
  claims: 'claims',
  contendedClaims: 'claims that another client asked for too',
  extensions: 'extensions',
  failures: 'failed acquisitions',
  releases: 'releases in time',
  expiries: 'claims held to their end',
  writes: 'writes that reached the resource',
  endsUnseen: 'claims that ended while their client was frozen',
  expiriesInExtension: 'keys that expired during an extension',
  claimsByOwnClocks: 'claims of clients that read clocks of their own',
  claimsAtWrongRates: 'claims on clocks of wrong rates',
  votesLostInClaim: 'votes lost inside a claim',
  votesForgottenInClaim: 'votes forgotten inside a claim',
  crashesInClaim: 'node crashes inside a claim',
  powerLossesInClaim: 'losses of power inside a claim',
  shutdownsInClaim: 'nodes shut down in order inside a claim',
  restartsInClaim: 'node restarts inside a claim',
  pausesInClaim: 'pauses inside a claim',
  suspendsInClaim: 'suspends inside a claim',
  clientCrashesInClaim: 'clients that died inside a claim',
  wallStepsInClaim: 'steps of unused wall clocks inside a claim',
  clockStepsInClaim: 'clock steps inside a claim',
  clockRatesInClaim: 'changes of clock rates inside a claim',
  failoversInClaim: 'failovers inside a claim',
  reconfigurationsInClaim: 'clients told of their nodes anew inside a claim',
  forgettingsInClaim: 'flushed nodes inside a claim',
  refusalsInClaim: 'nodes that answer with errors inside a claim',
  partitionsInClaim: 'partitions inside a claim',
  lossesInClaim: 'lost messages inside a claim',
  copiesInClaim: 'copied messages inside a claim',
  resendsInClaim: 'requests sent again inside a claim',
  textsInClaim: 'scripts sent anew with their text inside a claim',
  delaysInClaim: 'messages held up inside a claim',
} as const;

/** The name of a situation that is counted. */
export type Situation = keyof typeof SITUATIONS;

/** How often each situation was there. */
export type Counts = Record<Situation, number>;

/** Every situation, 0 times. */
export function noCounts(): Counts {
  return Object.fromEntries(Object.keys(SITUATIONS).map((name) => [name, 0])) as Counts;
}

/** How a fault of each kind is counted when it meets a claim. */
const BY_FAULT: Readonly<Record<Fault['kind'], Situation>> = {
  crash: 'crashesInClaim',
  pause: 'pausesInClaim',
  suspend: 'suspendsInClaim',
  'client-crash': 'clientCrashesInClaim',
  'clock-step': 'clockStepsInClaim',
  'clock-rate': 'clockRatesInClaim',
  failover: 'failoversInClaim',
  reconfigure: 'reconfigurationsInClaim',
  forget: 'forgettingsInClaim',
  refuse: 'refusalsInClaim',
  partition: 'partitionsInClaim',
};

/** How much of each trouble there may be in this weather, in order of importance. */
function amountsOf(weather: Weather): readonly (readonly [amount: number, situation: Situation])[] {
  const { stretch } = weather;
  return [
    [1, 'claims'],
    [weather.crashes, 'crashesInClaim'],
    [weather.pauses, 'pausesInClaim'],
    [weather.suspends, 'suspendsInClaim'],
    [weather.policy.clock === 'wall' ? 0 : weather.wallSteps, 'wallStepsInClaim'],
    [weather.clientCrashes, 'clientCrashesInClaim'],
    [weather.partitions, 'partitionsInClaim'],
    [weather.failovers, 'failoversInClaim'],
    [weather.refusals, 'refusalsInClaim'],
    [stretch.step, 'clockStepsInClaim'],
    [stretch.rate, 'claimsAtWrongRates'],
    [stretch.forget, 'votesForgottenInClaim'],
    [weather.flushes, 'forgettingsInClaim'],
    [stretch.late, 'writes'],
    [weather.lossPpm, 'lossesInClaim'],
    [weather.duplicatePpm, 'copiesInClaim'],
    [weather.spikePpm, 'delaysInClaim'],
  ];
}

/** What a search in this weather has to go through before a pass of it says anything, in order of importance. */
function askedOf(weather: Weather): Situation[] {
  return amountsOf(weather).flatMap(([amount, situation]) => (amount > 0 ? [situation] : []));
}

/** Trouble that cannot be met in this weather, because nobody asked for it. */
export function unasked(weather: Weather): Situation[] {
  const { disks, persistence, crashes, byHash, ownTiming, stretch, duplicatePpm } = weather;
  const may: readonly (readonly [may: boolean, situation: Situation])[] = [
    ...amountsOf(weather).map(([amount, situation]) => [amount > 0, situation] as const),
    [crashes > 0 && (disks || persistence === 'everysec'), 'powerLossesInClaim'],
    [disks, 'shutdownsInClaim'],
    [byHash, 'textsInClaim'],
    [ownTiming, 'claimsByOwnClocks'],
    [stretch.rate > 0, 'clockRatesInClaim'],
    [duplicatePpm > 0, 'resendsInClaim'],
  ];
  return may.flatMap(([isPossible, situation]) => (isPossible ? [] : [situation]));
}

/** What a search was asked for and never met, or `null`: a pass without it is none. */
export function missed(weather: Weather, counts: Counts): Situation | null {
  return askedOf(weather).find((situation) => counts[situation] === 0) ?? null;
}

/** Counts the situations of one run into a total that many runs share. */
export class Coverage {
  private readonly counts: Counts;
  private readonly roster: Roster;
  private readonly contended: LockRun[] = [];
  private readonly wrongRates: boolean;
  private readonly setup: Setup;

  constructor(setup: Setup, counts: Counts, roster: Roster) {
    this.setup = setup;
    this.counts = counts;
    this.roster = roster;
    this.wrongRates = setup.cluster.clocks.some(({ ratePpm }) => ratePpm !== 0);
  }

  /** A client begins to ask for a lock. */
  asked(lock: LockRun): void {
    for (const holder of this.roster.holders) this.contend(holder, lock);
  }

  private contend(holder: LockRun, other: LockRun): void {
    if (holder === other || other.gone || this.contended.includes(holder)) return;
    if (!holder.resources.some((key) => other.resources.includes(key))) return;
    this.contended.push(holder);
    this.counts.contendedClaims++;
  }

  claimed(lock: LockRun): void {
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

  ended(lock: LockRun, cause: EndCause, now: TrueTime): void {
    if (cause === 'released') this.counts.releases++;
    else if (cause === 'expired') {
      this.counts.expiries++;
      if (lock.client.pausedUntil === now) this.counts.endsUnseen++;
    }
  }

  keyGone(owner: LockRun | null, cause: GoneCause, now: TrueTime): void {
    if (owner === null) return;
    if (cause === 'expired' && owner.state.extending) this.counts.expiriesInExtension++;
    if (!believes(owner, now)) return;
    this.counts.votesLostInClaim++;
    if (cause === 'forgotten') this.counts.votesForgottenInClaim++;
  }

  written(): void {
    this.counts.writes++;
  }

  nodeUp(now: TrueTime): void {
    if (this.isInClaim(now)) this.counts.restartsInClaim++;
  }

  faultStrikes(fault: Fault, now: TrueTime): void {
    if (!this.isInClaim(now)) return;
    const unused = fault.kind === 'clock-step' && this.isUnusedWall(fault.process);
    if (fault.kind === 'crash') {
      if (fault.power === true) this.counts.powerLossesInClaim++;
      if (fault.clean === true) this.counts.shutdownsInClaim++;
    }
    this.counts[unused ? 'wallStepsInClaim' : BY_FAULT[fault.kind]]++;
  }

  /** Whether a process is a client that reads another clock than the one that can be set. */
  private isUnusedWall(process: string): boolean {
    const client = this.setup.clients.indexOf(process);
    return client >= 0 && policyFor(this.setup, client).clock !== 'wall';
  }

  private isInClaim(now: TrueTime): boolean {
    for (const lock of this.roster.holders) if (believes(lock, now)) return true;
    return false;
  }
}
