import type { Counts, Situation } from '../properties/coverage.js';
import { mostDownOf, type Weather } from './weather.js';

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
    [weather.policy.habits.clock === 'wall' ? 0 : weather.wallSteps, 'wallStepsInClaim'],
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
  const { disks, crashes, powerLosses, byHash, ownTiming, stretch, duplicatePpm, suspends, flushes } = weather;
  const spares = stretch.forget > 0;
  const isDown = mostDownOf(weather) > 0 || spares;
  const may: Readonly<Partial<Record<Situation, boolean>>> = {
    ...Object.fromEntries(amountsOf(weather).map(([amount, situation]) => [situation, amount > 0])),
    crashesInClaim: crashes > 0 || spares,
    powerLossesInClaim: powerLosses > 0,
    restartsInClaim: isDown,
    // A clock that nobody can set is set back by a suspend.
    suspendsInClaim: suspends > 0 || stretch.step > 0,
    forgettingsInClaim: flushes > 0 || spares,
    votesForgottenInClaim: flushes > 0 || (isDown && weather.persistence !== 'always'),
    shutdownsInClaim: disks && crashes > 0,
    textsInClaim: byHash,
    claimsByOwnClocks: ownTiming,
    clockRatesInClaim: stretch.rate > 0,
    resendsInClaim: duplicatePpm > 0,
  };
  return (Object.keys(SITUATIONS) as Situation[]).filter((situation) => may[situation] === false);
}

/** Trouble in which all messages arrive, once each, and when they usually do. */
const OF_MESSAGES: readonly Situation[] = ['lossesInClaim', 'copiesInClaim', 'resendsInClaim', 'delaysInClaim'];

/** What a search in this weather never tries, in words: kinds of faults, and what messages are spared. */
export function untried(weather: Weather): string[] {
  const none = unasked(weather).filter((it) => it !== 'claims' && !OF_MESSAGES.includes(it));
  const spared = [
    ...(weather.lossPpm === 0 ? ['lost messages'] : []),
    ...(weather.duplicatePpm === 0 ? ['copied messages'] : []),
    ...(weather.spikePpm === 0 ? ['messages held up'] : []),
  ];
  return [
    ...none.map((it) => SITUATIONS[it].replace(/ inside a claim$/, '')),
    ...(weather.outages ? [] : ['nodes that are out of order from the beginning to the end']),
    ...(weather.failovers > 0 && weather.replicaLagUs === 0 ? ['replicas that are behind'] : []),
    ...(spared.length === 3 ? ['messages that are lost, copied or held up (all are on time)'] : spared),
  ];
}

/** What a search was asked for and never met, or `null`: a pass without it is none. */
export function missed(weather: Weather, counts: Counts): Situation | null {
  return askedOf(weather).find((situation) => counts[situation] === 0) ?? null;
}
