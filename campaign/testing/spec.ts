import { SAFETY } from '../../properties/index.js';
import { exceedBound, WITHIN_ASSUMPTIONS } from '../../search/index.js';
import { type CampaignRange, type CampaignSearch, type CampaignSpec, isLibrary } from '../spec.js';
import { runUnit, type UnitResult } from '../unit.js';

/** A campaign of so many ranges of 25 runs, in which some fail; searches by their weights. */
export function specFor(ranges: number, ...weights: readonly number[]): CampaignSpec {
  const search = (weight: number, i: number): CampaignSearch => ({
    name: `search ${i}`,
    weight,
    plan: {
      faultModel: exceedBound(WITHIN_ASSUMPTIONS, 'clock-drift', 1.5),
      seed: `seed ${i}`,
      strategy: 'combination',
      properties: SAFETY,
    },
  });
  const [first = 1, ...rest] = weights;
  return {
    schema: 'lockstep.campaign/1',
    searches: [search(first, 0), ...rest.map((weight, i) => search(weight, i + 1))],
    runs: 25 * ranges,
    rangeRuns: 25,
    budgetMs: null,
    stopAfter: null,
    engine: 'this one',
  };
}

/** One range of such a campaign. */
export function unitOf({ searches }: CampaignSpec, range: CampaignRange): UnitResult {
  const { plan } = searches[range.search] ?? searches[0];
  if (isLibrary(plan)) throw new TypeError('a range of a library takes a worker');
  return runUnit(plan, range);
}
