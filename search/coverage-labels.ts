import type { Counts, CoveragePoint } from '../properties/coverage.js';
import { type FaultModel, mostDownOf } from './fault-model.js';

/** What runs went through, counted; a situation that was never hit says nothing about the lock. */
export const COVERAGE_LABELS: Readonly<Record<CoveragePoint, string>> = {
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
  reconfigurationsInClaim: 'clients told of their nodes again inside a claim',
  forgettingsInClaim: 'flushed nodes inside a claim',
  refusalsInClaim: 'nodes that answer with errors inside a claim',
  partitionsInClaim: 'partitions inside a claim',
  lossesInClaim: 'lost messages inside a claim',
  copiesInClaim: 'copied messages inside a claim',
  resendsInClaim: 'requests sent again inside a claim',
  textsInClaim: 'scripts sent again with their text inside a claim',
  delaysInClaim: 'messages held up inside a claim',
};

/** How much of each trouble there may be in this fault model, in order of importance. */
function amountsOf(faultModel: FaultModel): readonly (readonly [amount: number, situation: CoveragePoint])[] {
  const { stretch } = faultModel;
  return [
    [1, 'claims'],
    [faultModel.crashes, 'crashesInClaim'],
    [faultModel.pauses, 'pausesInClaim'],
    [faultModel.suspends, 'suspendsInClaim'],
    [faultModel.policy.habits.clock === 'wall' ? 0 : faultModel.wallSteps, 'wallStepsInClaim'],
    [faultModel.clientCrashes, 'clientCrashesInClaim'],
    [faultModel.partitions, 'partitionsInClaim'],
    [faultModel.failovers, 'failoversInClaim'],
    [faultModel.refusals, 'refusalsInClaim'],
    [stretch['clock-step'], 'clockStepsInClaim'],
    [stretch['clock-drift'], 'claimsAtWrongRates'],
    [stretch['data-loss'], 'votesForgottenInClaim'],
    [faultModel.flushes, 'forgettingsInClaim'],
    [stretch['write-delay'], 'writes'],
    [faultModel.lossPpm, 'lossesInClaim'],
    [faultModel.duplicatePpm, 'copiesInClaim'],
    [faultModel.spikePpm, 'delaysInClaim'],
  ];
}

/** What a search in this fault model has to go through before a pass of it says anything, in order of importance. */
function askedOf(faultModel: FaultModel): CoveragePoint[] {
  const asked = amountsOf(faultModel).flatMap(([amount, situation]) => (amount > 0 ? [situation] : []));
  // Where the ways to go down have a limit together, each of them is a choice of the search.
  return faultModel.powerLosses > 0 && faultModel.mostDown === null ? [...asked, 'powerLossesInClaim'] : asked;
}

/** Trouble that cannot be met in this fault model, because nobody asked for it. */
export function disabledPoints(faultModel: FaultModel): CoveragePoint[] {
  const { disks, crashes, powerLosses, byHash, ownTiming, stretch, duplicatePpm, suspends, flushes } = faultModel;
  const spares = stretch['data-loss'] > 0;
  const isDown = mostDownOf(faultModel) > 0 || spares;
  const may: Readonly<Partial<Record<CoveragePoint, boolean>>> = {
    ...Object.fromEntries(amountsOf(faultModel).map(([amount, situation]) => [situation, amount > 0])),
    crashesInClaim: crashes > 0 || spares,
    powerLossesInClaim: powerLosses > 0,
    restartsInClaim: isDown,
    // A clock that nobody can set is set back by a suspend.
    suspendsInClaim: suspends > 0 || stretch['clock-step'] > 0,
    forgettingsInClaim: flushes > 0 || spares,
    votesForgottenInClaim: flushes > 0 || (isDown && faultModel.persistence !== 'always'),
    shutdownsInClaim: disks && crashes > 0,
    textsInClaim: byHash,
    claimsByOwnClocks: ownTiming,
    clockRatesInClaim: stretch['clock-drift'] > 0,
    resendsInClaim: duplicatePpm > 0,
  };
  return (Object.keys(COVERAGE_LABELS) as CoveragePoint[]).filter((situation) => may[situation] === false);
}

/** Trouble in which all messages arrive, once each, and when they usually do. */
const OF_MESSAGES: readonly CoveragePoint[] = ['lossesInClaim', 'copiesInClaim', 'resendsInClaim', 'delaysInClaim'];

/** What a search in this fault model never tries, in words: kinds of faults, and what messages are spared. */
export function untried(faultModel: FaultModel): string[] {
  const none = disabledPoints(faultModel).filter((it) => it !== 'claims' && !OF_MESSAGES.includes(it));
  const spared = [
    ...(faultModel.lossPpm === 0 ? ['lost messages'] : []),
    ...(faultModel.duplicatePpm === 0 ? ['copied messages'] : []),
    ...(faultModel.spikePpm === 0 ? ['messages held up'] : []),
  ];
  return [
    ...none.map((it) => COVERAGE_LABELS[it].replace(/ inside a claim$/, '')),
    ...(faultModel.outages ? [] : ['nodes that are out of order from the beginning to the end']),
    ...(faultModel.failovers > 0 && faultModel.replicaLagUs === 0 ? ['replicas that are behind'] : []),
    ...(spared.length === 3 ? ['messages that are lost, copied or held up (all are on time)'] : spared),
  ];
}

/** What a search was asked for and never met, or `null`: a pass without it is none. */
export function firstUncovered(faultModel: FaultModel, counts: Counts): CoveragePoint | null {
  return askedOf(faultModel).find((situation) => counts[situation] === 0) ?? null;
}
