import type { Fault } from '../scenarios/index.js';
import type { EndCause, GoneCause, LockRun, TrueTime } from '../sim/index.js';
import { believes } from './monitors/belief.js';
import { remove } from './monitors/remove.js';

/** What runs went through, counted; a situation that was never hit says nothing about the lock. */
export const SITUATIONS = {
  claims: 'claims',
  contendedClaims: 'claims that another client asked for too',
  extensions: 'extensions',
  failures: 'failed acquisitions',
  releases: 'releases in time',
  expiries: 'claims held to their end',
  votesLostInClaim: 'votes lost inside a claim',
  votesForgottenInClaim: 'votes forgotten inside a claim',
  crashesInClaim: 'node crashes inside a claim',
  pausesInClaim: 'pauses inside a claim',
  clientCrashesInClaim: 'clients that died inside a claim',
  clockStepsInClaim: 'clock steps inside a claim',
  clockRatesInClaim: 'changes of clock rates inside a claim',
  failoversInClaim: 'failovers inside a claim',
  partitionsInClaim: 'partitions inside a claim',
} as const;
export type Situation = keyof typeof SITUATIONS;

export type Counts = Record<Situation, number>;

export function noCounts(): Counts {
  return Object.fromEntries(Object.keys(SITUATIONS).map((name) => [name, 0])) as Counts;
}

const BY_FAULT: Partial<Record<Fault['kind'], Situation>> = {
  crash: 'crashesInClaim',
  pause: 'pausesInClaim',
  'client-crash': 'clientCrashesInClaim',
  'clock-step': 'clockStepsInClaim',
  'clock-rate': 'clockRatesInClaim',
  failover: 'failoversInClaim',
  partition: 'partitionsInClaim',
};

/** Counts the situations of one run into a total that many runs share. */
export class Coverage {
  private readonly counts: Counts;
  private readonly believers: LockRun[] = [];
  private readonly askers: LockRun[] = [];
  private readonly contended: LockRun[] = [];

  constructor(counts: Counts) {
    this.counts = counts;
  }

  attempted(lock: LockRun): void {
    if (this.askers.includes(lock)) return;
    this.askers.push(lock);
    for (const holder of this.believers) this.contend(holder, lock);
  }

  private contend(holder: LockRun, other: LockRun): void {
    if (holder === other || other.client.down || this.contended.includes(holder)) return;
    if (!holder.keys.some((key) => other.keys.includes(key))) return;
    this.contended.push(holder);
    this.counts.contendedClaims++;
  }

  claimed(lock: LockRun): void {
    this.counts.claims++;
    remove(this.askers, lock);
    this.believers.push(lock);
    for (const other of this.askers) this.contend(lock, other);
  }

  extended(): void {
    this.counts.extensions++;
  }

  failed(lock: LockRun): void {
    this.counts.failures++;
    remove(this.askers, lock);
  }

  ended(lock: LockRun, cause: EndCause): void {
    if (cause === 'released') this.counts.releases++;
    else if (cause === 'expired') this.counts.expiries++;
    remove(this.believers, lock);
  }

  keyGone(owner: LockRun | null, cause: GoneCause, now: TrueTime): void {
    if (owner === null || !believes(owner, now)) return;
    this.counts.votesLostInClaim++;
    if (cause === 'forgotten') this.counts.votesForgottenInClaim++;
  }

  faultStrikes(fault: Fault, now: TrueTime): void {
    const situation = BY_FAULT[fault.kind];
    if (situation !== undefined && this.believers.some((lock) => believes(lock, now))) this.counts[situation]++;
  }
}
