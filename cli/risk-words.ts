import type { Interval } from '../advise/risk/interval.js';
import { formatCount, plural } from '../text/format.js';
import type { RiskAnswer } from './risk-answer.js';
import { CAUSE_WORDS, rateWords } from './risk-assumptions.js';

/** `3.1e-4 (95 %: 2.9e-4 to 3.4e-4): one in about 3 200 years.` */
export function sentence(interval: Interval): string {
  const { value, high } = interval;
  if (value === 0) return `none was seen; with 95 % confidence fewer than ${rateWords(high)}`;
  const every = value < 1 ? `: one in about ${rateWords(1 / value)} years` : '';
  return `${rateWords(value)}, 95 % interval ${intervalWords(interval)}${every}`;
}

/** Its ends. */
export function intervalWords({ low, high }: Interval): string {
  return `${rateWords(low)} to ${rateWords(high)}`;
}

/** A set of causes, all of which are needed. */
export function causeWords(causes: RiskAnswer['estimate']['causes'][number]['causes']): string {
  if (causes.length === 0) return 'no event at all';
  return causes.map((it) => CAUSE_WORDS[it][0]).join(' and ');
}

/** A part of a whole, in percent. */
export function share(value: number, all: number): string {
  const percent = (100 * value) / all;
  return percent > 0 && percent < 0.1 ? '< 0.1 %' : `${percent.toFixed(1)} %`;
}

/** How an estimate was made, and what speaks for it; a sentence or two each. */
export function methodWords({ estimate: { method }, seed, model }: RiskAnswer): string[] {
  const { runs, pilotRuns, hits, measured, inside, insideRuns, restPerYear, halves } = method;
  return [
    `The holds of a year are sorted by what happens to them: how many there are of each sort follows from the rates, and which share of each is violated is measured with runs of the engine that draw the rest (importance sampling by conditioning on the events, allocated by Neyman's rule).`,
    `${plural(measured, 'sort')} measured with ${formatCount(runs)} runs, ${plural(hits, 'violation')}, after a pilot of ${formatCount(pilotRuns)} runs that does not count; seed ${seed}. ${plural(inside, 'sort')} of holds keep all that the lock assumes even at the worst draw: they count as safe, and ${formatCount(insideRuns)} runs saw no violation there (lockstep check --profile ${model.policy.profile} looks for one).`,
    `Interval: Wilson's for each share, joined as squares (MOVER), plus ${rateWords(restPerYear)} holds a year with so many rare events that they were not looked at, counted as violated. It is about chance in these runs; that the assumptions are right, it does not say.`,
    `Self-check: the two halves of the runs differ by ${Math.abs(halves).toFixed(1)} standard deviations${Math.abs(halves) > 3 ? ', which is too much: do not trust this figure' : ''}; each example above was run again and is violated.`,
  ];
}
