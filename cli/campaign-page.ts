import {
  type CampaignPart,
  CampaignRanges,
  isLibrary,
  missingFrom,
  rangesDone,
  totalOf,
  violatingRuns,
} from '../campaign/index.js';
import type { CoveragePoint } from '../properties/index.js';
import type { PassReport } from '../report/pass/index.js';
import { COVERAGE_LABELS } from '../search/index.js';
import { greatestShare } from '../search/share.js';
import { formatCount, formatList, plural } from '../text/format.js';
import type { Io } from './io.js';
import { emptyPass, fearedChanges, writePass } from './pass-page.js';

/** Writes the page for a campaign that found nothing. @returns Its path; `null` where something was found, or it could not be written. */
export function writeCampaignPass(name: string, part: CampaignPart, io: Io): string | null {
  return violatingRuns(totalOf(part)) > 0 ? null : writePass(name, campaignPass(part, io), io);
}

function campaignPass(part: CampaignPart, io: Io): PassReport {
  const { spec } = part;
  const total = totalOf(part);
  const { count } = new CampaignRanges(spec);
  const missing = missingFrom(part).length;
  const points = Object.keys(COVERAGE_LABELS) as CoveragePoint[];
  const words = (isHit: boolean): string =>
    formatList(
      points
        .filter((it) => total.exercised[it] > 0 === isHit)
        .map((it) => (isHit ? `${formatCount(total.exercised[it])} ${COVERAGE_LABELS[it]}` : COVERAGE_LABELS[it])),
    );
  // Where runs are drawn to have certain trouble, no share is told.
  const isDrawn = !spec.searches.some(({ plan }) => isLibrary(plan));
  return {
    ...emptyPass(io),
    subject: `campaign of ${plural(spec.searches.length, 'search', 'searches')}, ${plural(count, 'range')}`,
    verdict: missing === 0 ? 'passed' : 'not finished',
    tone: missing === 0 ? 'good' : 'open',
    sentence: `No violation was found in ${plural(total.runs, 'schedule')} with ${plural(total.events, 'event')}.`,
    tried: [
      ...spec.searches.map(({ name, weight }, i) => ({
        name,
        text: `weight ${formatCount(weight)}, ${plural(part.tallies[i]?.runs ?? 0, 'schedule')}`,
      })),
      { name: 'happened', text: words(true) },
    ],
    notTried: [
      { name: 'never happened', text: words(false) || 'nothing that is counted' },
      ...(missing === 0
        ? []
        : [{ name: 'ranges', text: `${formatCount(missing)} of ${formatCount(count)} were not made` }]),
    ],
    nearMisses: [
      { name: plural(total.near, 'schedule'), text: 'in which a claim was within 1 ms or one vote of a violation' },
    ],
    changes: fearedChanges(io),
    configuration: [
      { name: 'ranges', text: `${formatCount(rangesDone(part))} of ${formatCount(count)} done` },
      { name: 'hash of all schedules', text: total.hash },
      { name: 'engine', text: spec.engine },
    ],
    meaning: isDrawn
      ? [
          `Fewer than ${(greatestShare(Math.max(1, total.runs)) * 100).toPrecision(2)} % of the schedules that it draws violate something, at 95 %; that is not a share of your production, and not a proof.`,
        ]
      : ['No schedule was found that breaks these clients; that is no proof.'],
  };
}
