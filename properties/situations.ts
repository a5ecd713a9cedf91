import type { Counts, Situation } from './coverage.js';
import type { Weather } from './search/weather.js';

/** What runs went through, counted; a situation that was never hit says nothing about the lock. */
export const SITUATIONS: Readonly<Record<Situation, string>> = {
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
  const asked = amountsOf(weather).flatMap(([amount, situation]) => (amount > 0 ? [situation] : []));
  // Where the ways to go down have a limit together, each of them is a choice of the search.
  return weather.powerLosses > 0 && weather.mostDown === null ? [...asked, 'powerLossesInClaim'] : asked;
}

/** Trouble that cannot be met in this weather, because nobody asked for it. */
export function unasked(weather: Weather): Situation[] {
  const { disks, crashes, powerLosses, byHash, ownTiming, stretch, duplicatePpm } = weather;
  const may: readonly (readonly [may: boolean, situation: Situation])[] = [
    ...amountsOf(weather).map(([amount, situation]) => [amount > 0, situation] as const),
    [powerLosses > 0, 'powerLossesInClaim'],
    [disks && crashes > 0, 'shutdownsInClaim'],
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
