import {
  type CampaignPart,
  CampaignRanges,
  isLibrary,
  missingFrom,
  perMillionWords,
  rangesDone,
  totalOf,
  violatingRuns,
} from '../campaign/index.js';
import { greatestShare } from '../search/share.js';
import { formatCount, plural } from '../text/format.js';
import { printable } from '../text/printable.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { textTable } from './text-table.js';

const MOST_FAILURES = 10;
const LONGEST_SHAPE = 400;
const LONGEST_NAME = 80;

/** What a campaign, or a part of it, came to. */
export function partText(part: CampaignPart, what: string): string {
  const { spec, failures } = part;
  const total = totalOf(part);
  const { count } = new CampaignRanges(spec);
  const done = rangesDone(part);
  const rows = spec.searches.map(({ name }, i) => {
    const tally = part.tallies[i];
    if (tally === undefined) return [name];
    const violating = violatingRuns(tally);
    return [
      name,
      formatCount(tally.runs),
      formatCount(violating),
      perMillionWords(violating, tally.runs),
      formatCount(tally.near),
    ];
  });
  const more = failures.length - MOST_FAILURES;
  return [
    `${plural(total.runs, 'schedule')}, ${plural(total.events, 'event')}, ${formatCount(done)} of ${plural(count, 'range')}` +
      `${what === '' ? '' : ` (${what})`}   hash ${total.hash}   engine ${printable(spec.engine, LONGEST_NAME)}`,
    '',
    textTable(['search', 'schedules', 'violations', 'per million', 'near'], rows, 1),
    '',
    failures.length === 0
      ? noneText(part, total.runs, done === count)
      : `${plural(failures.length, 'shape')} of failure:`,
    ...failures
      .slice(0, MOST_FAILURES)
      .map(
        ({ shape, search, run, events }) =>
          `  ${printable(shape, LONGEST_SHAPE)}\n    ${plural(events, 'event')}, first in run ${formatCount(run + 1)}` +
          `${spec.searches.length === 1 ? '' : ` of ${printable(spec.searches[search]?.name ?? '', LONGEST_NAME)}`}`,
      ),
    ...(more > 0 ? [`  and ${plural(more, 'further shape')}`] : []),
    '',
  ].join('\n');
}

function noneText({ spec }: CampaignPart, runs: number, isWhole: boolean): string {
  if (runs === 0) return 'Nothing has been searched.';
  // Where runs are drawn to have certain trouble, no share is told.
  if (spec.searches.some(({ plan }) => isLibrary(plan))) return `No violation${isWhole ? '' : ' so far'}.`;
  const share = (greatestShare(runs) * 100).toPrecision(2);
  return `No violation${isWhole ? '' : ' so far'}: fewer than ${share} % of the schedules that it draws violate something, at 95 %.`;
}

/** The same as JSON. */
export function partJson(part: CampaignPart): object {
  const total = totalOf(part);
  const { count } = new CampaignRanges(part.spec);
  const missing = missingFrom(part);
  return {
    verdict: violatingRuns(total) > 0 ? 'violated' : missing.length > 0 ? 'inconclusive' : 'passed',
    runs: total.runs,
    events: total.events,
    hash: total.hash,
    engine: part.spec.engine,
    ranges: { total: count, done: rangesDone(part), missing },
    searches: part.spec.searches.map(({ name, weight }, i) => ({ name, weight, ...part.tallies[i] })),
    failures: part.failures.map(({ schedule: _, text: __, ...failure }) => failure),
  };
}

/** A shard alone cannot be whole, and is not inconclusive for it. */
export function partExit(part: CampaignPart, isShard: boolean): ExitCode {
  if (violatingRuns(totalOf(part)) > 0) return Exit.violated;
  return isShard || missingFrom(part).length === 0 ? Exit.ok : Exit.inconclusive;
}
