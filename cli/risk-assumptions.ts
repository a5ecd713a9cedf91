import { lateReleaseOf } from '../advise/late-release.js';
import { libraryOf } from '../advise/libraries.js';
import { retryUs } from '../advise/risk/hold.js';
import { CAUSE_NAMES, type CauseName, type Rate, type RiskModel } from '../advise/risk/model.js';
import { CAUSE_KEYS } from '../advise/risk/rates.js';
import { TYPICAL, typicalOf } from '../advise/risk/typical.js';
import { driftAllowanceUs } from '../deviations/index.js';
import { formatCount, formatList, formatPercent, plural } from '../text/format.js';
import type { RiskAnswer } from './risk-answer.js';

/** One thing that an estimate assumes. */
export interface RiskAssumption {
  readonly about: string;
  readonly says: string;
}

/** Of what each cause is, and of whom, for people. */
export const CAUSE_WORDS: Readonly<Record<CauseName, readonly [string, string]>> = {
  crash: ['crash of a node', 'a node'],
  powerLoss: ['power loss of a node', 'a node'],
  powerLossOfAll: ['power loss of all nodes', 'the system'],
  failover: ['failover to a replica', 'a node'],
  dataLoss: ['keys lost by a running node', 'a node'],
  nodeStep: ['clock step of a node', 'a node'],
  nodeStepOfAll: ['clock step of all nodes', 'the system'],
  clientStep: ['clock step of a client', 'a client'],
  pause: ['pause of a client', 'a client'],
  suspend: ['suspended client machine', 'a client'],
  vmPause: ['pause of a client VM', 'a client'],
  partition: ['partition of a node', 'a node'],
  lateWrite: ['late write', 'a write'],
};

const UNITS: readonly (readonly [number, string])[] = [
  [3_600_000_000, 'h'],
  [60_000_000, 'min'],
  [1_000_000, 's'],
  [1_000, 'ms'],
  [1, 'µs'],
];

/** A duration in the largest unit that it has at least one of. */
export function durationWords(us: number): string {
  const [size, unit] = UNITS.find(([it]) => us >= it) ?? [1, 'µs'];
  return `${Number((us / size).toPrecision(3))} ${unit}`;
}

/** A number of events or violations, with three digits. */
export function rateWords(value: number): string {
  if (value === 0) return '0';
  if (value >= 1000) return formatCount(Math.round(value));
  return value >= 0.01 ? String(Number(value.toPrecision(3))) : value.toExponential(2);
}

/** All that an estimate assumes, in the order in which it is printed. */
export function assumptionsOf({ system, model, locks, end }: RiskAnswer): RiskAssumption[] {
  const { rates } = model;
  const given = CAUSE_NAMES.filter((it) => rates[it] !== undefined);
  return [
    { about: 'nodes', says: nodesWords(model) },
    { about: 'client', says: clientWords(model) },
    { about: 'locks', says: locksWords(model) },
    { about: 'work', says: workWords(model) },
    { about: 'network', says: networkWords(model) },
    { about: 'clocks', says: `each runs at a rate of its own, up to ${formatPercent(model.driftPpm)} wrong` },
    ...given.map((cause) => ({
      about: CAUSE_KEYS[cause],
      says: `${rateSentence(cause, rates[cause])}${locks.typical.includes(cause) ? ` (${end} end of what is published: ${typicalOf(cause)?.source})` : ''}`,
    })),
    { about: 'left out', says: leftOut(given) },
    ...(lateReleaseOf(system) === null
      ? []
      : [
          {
            about: 'late releases',
            says: `not estimated: ${libraryOf(model.policy).title} uses one token for all tries of a call, and messages that overtake each other let a late release delete the keys of the next try (lockstep advise)`,
          },
        ]),
    {
      about: 'chance',
      says: 'events come at any time, independently of each other, of their own past and of the locks (Poisson); real failures come in bursts, and more often under load: then it is more',
    },
    ...(system.resource.checksToken && !model.fenced
      ? [{ about: 'resource', says: 'it could compare fencing tokens, but this client gives none' }]
      : []),
  ];
}

function nodesWords({ nodes }: RiskModel): string {
  const groups = new Map<string, number>();
  for (const { persistence, diskKept, restartUs, lagUs } of nodes) {
    const back =
      restartUs === null
        ? 'stopped ones stay away'
        : `back ${restartUs === 0 ? 'at once' : `${durationWords(restartUs)} after a stop`} at the soonest`;
    const words = `persistence ${persistence}${diskKept ? '' : ' on a disk that is lost'}, ${back}${lagUs > 0 ? `, replica up to ${durationWords(lagUs)} behind` : ''}`;
    groups.set(words, (groups.get(words) ?? 0) + 1);
  }
  return [...groups].map(([words, count]) => `${count} with ${words}`).join('; ');
}

function clientWords(model: RiskModel): string {
  const { policy, ttlMs, rivals } = model;
  const title = libraryOf(policy).title;
  const allowance = durationWords(Math.max(0, driftAllowanceUs(policy, 1000 * ttlMs)));
  return `${title}, TTL ${durationWords(1000 * ttlMs)}, allowance for clocks ${allowance}; waiting clients ask again about every ${durationWords(retryUs(model))}, ${plural(rivals, 'client waits', 'clients wait')} at a time`;
}

function locksWords({ locksPerYear, holds, contended }: RiskModel): string {
  const lengths = holds.map(
    ({ us, share }) => `${holds.length === 1 ? 'each' : formatPercent(1_000_000 * share)} for ${durationWords(us)}`,
  );
  const wanted =
    contended === 1
      ? 'another client always waits'
      : `in ${formatPercent(1_000_000 * contended)} of them another client waits`;
  return `${rateWords(locksPerYear / 365)} a day: ${formatList(lengths)}; ${wanted}`;
}

function workWords({ writes, guardUs, gapUs, extends: extending, fenced }: RiskModel): string {
  if (!writes) return 'nothing is written under the lock';
  const check = guardUs === null ? 'without a look at the lock' : `if ${durationWords(guardUs)} of the lock are left`;
  return [
    `one write at the end of each hold, ${check}, sent ${durationWords(gapUs)} later`,
    ...(fenced ? ['the resource refuses old fencing tokens'] : []),
    ...(extending ? ['extended each half of the TTL'] : []),
  ].join('; ');
}

function networkWords({ delayUs, writeUs }: RiskModel): string {
  return `messages take ${range(...delayUs)} each way and keep their order, writes ${range(...writeUs)}`;
}

function range(from: number, to: number): string {
  if (from === to) return durationWords(to);
  return from === 0 ? `up to ${durationWords(to)}` : `${durationWords(from)} to ${durationWords(to)}`;
}

function rateSentence(cause: CauseName, rate: Rate | undefined): string {
  if (rate === undefined) return '';
  const [, whose] = CAUSE_WORDS[cause];
  const bars = rate.bins.map(({ from, to, share }) => {
    const size = cause === 'dataLoss' ? '' : `, ${cause.includes('Step') ? 'by' : 'for'} ${range(from, to)}`;
    const often = rate.perYear * share;
    if (cause === 'lateWrite') return `one write in ${rateWords(1 / often)}, by ${range(from, to)}`;
    return `${rateWords(often)} a year for ${whose}${size}`;
  });
  return bars.join('; ');
}

function leftOut(given: readonly CauseName[]): string {
  const missing = CAUSE_NAMES.filter((it) => !given.includes(it));
  if (missing.length === 0) return 'nothing that can be given a rate';
  const known = TYPICAL.filter(({ cause }) => missing.includes(cause)).map(({ cause }) => CAUSE_KEYS[cause]);
  const hint = known.length === 0 ? '' : `; of ${formatList(known)} something is published (lockstep risk --typical)`;
  return `${missing.map((it) => CAUSE_KEYS[it]).join(', ')}: they count as never${hint}`;
}
