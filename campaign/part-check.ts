import { show } from '../scenarios/input-error.js';
import { parseSchedule } from '../scenarios/parse-schedule.js';
import { isCount } from '../scenarios/plain-data.js';
import type { SearchTotals } from '../search/search-totals.js';
import { type CampaignPart, noPart, rangesDone, totalOf } from './part.js';
import { CampaignRanges, type CampaignSpec } from './spec.js';

/**
 * What is wrong with plain data that is to be a part of a campaign, in a few words; `null` if it adds up: its counts are
 * counts, and its runs are those of its ranges.
 */
export function partError(part: CampaignPart): string | null {
  if (part.schema !== 'lockstep.campaign-part/1') return `its schema is ${show(part.schema)}`;
  const spec = wrongSpec(part.spec);
  if (spec !== null) return spec;
  if (!areSpans(part.done)) return 'its list of ranges is damaged';
  const last = part.done.at(-1)?.[1] ?? 0;
  const { count } = new CampaignRanges(part.spec);
  if (last > count) return `it has range ${last - 1} of ${count} ranges`;
  if (!areTallies(part.tallies, part.spec)) return 'its counts are damaged';
  if (totalOf(part).runs !== runsOf(part)) return `its counts are not those of its ${rangesDone(part)} ranges`;
  return areFailures(part) ? null : 'its failures are damaged';
}

function wrongSpec(spec: Partial<CampaignSpec> | null | undefined): string | null {
  if (typeof spec !== 'object' || spec === null) return 'it does not say of which campaign';
  const { searches, runs, rangeRuns, engine } = spec;
  const isSearched =
    Array.isArray(searches) &&
    searches.length > 0 &&
    searches.every((it) => typeof it?.name === 'string' && isCount(it.weight) && it.weight > 0 && isObject(it.plan));
  if (!isSearched) return 'its searches are damaged';
  if (!isCount(runs) || !isCount(rangeRuns) || rangeRuns === 0) return 'its numbers of runs are damaged';
  return typeof engine === 'string' ? null : 'it does not say which engine made it';
}

function areSpans(done: unknown): boolean {
  if (!Array.isArray(done)) return false;
  let at = 0;
  return done.every((span: unknown) => {
    const [from, to, ...more]: readonly unknown[] = Array.isArray(span) ? span : [];
    if (!isCount(from) || !isCount(to) || more.length > 0 || from < at || to <= from) return false;
    at = to;
    return true;
  });
}

/** The same fields as where nothing has run, with counts. */
function areTallies(tallies: unknown, spec: CampaignSpec): boolean {
  const empty = noPart(spec).tallies;
  return (
    Array.isArray(tallies) &&
    tallies.length === empty.length &&
    tallies.every((tally: unknown, i) => isLike(empty[i], tally) && isViolating((tally as SearchTotals).violating))
  );
}

function isViolating(violating: object): boolean {
  return Object.values(violating).every(isCount);
}

function isLike(model: unknown, value: unknown): boolean {
  if (typeof model === 'number') return isCount(value);
  if (!isObject(model)) return typeof value === typeof model;
  return isObject(value) && Object.entries(model).every(([key, inner]) => isLike(inner, Reflect.get(value, key)));
}

/** Runs of the ranges that a part has. */
function runsOf({ spec, done }: CampaignPart): number {
  // All ranges have the same, but for the last one.
  const { count } = new CampaignRanges(spec);
  const short = count * spec.rangeRuns - spec.runs;
  const hasLast = (done.at(-1)?.[1] ?? 0) === count && count > 0;
  return done.reduce((sum, [from, to]) => sum + (to - from) * spec.rangeRuns, 0) - (hasLast ? short : 0);
}

function areFailures({ failures, spec }: CampaignPart): boolean {
  if (!Array.isArray(failures)) return false;
  return failures.every((it) => {
    const { shape, property, search, run, events, schedule, text = '' } = it ?? {};
    const isTold = [shape, property, text].every((word) => typeof word === 'string');
    if (!isTold || ![search, run, events].every(isCount) || search >= spec.searches.length) return false;
    try {
      parseSchedule(schedule);
      return true;
    } catch {
      return false;
    }
  });
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
