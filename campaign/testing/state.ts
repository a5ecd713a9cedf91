import { mergeParts, noPart, partOf } from '../part.js';
import type { CampaignState } from '../queue/index.js';
import { CampaignRanges } from '../spec.js';
import { specFor, unitOf } from './spec.js';

/** In the middle of a campaign of two searches, one of which has a name to trip over. */
export function middle(): CampaignState {
  const plain = specFor(4, 1, 1);
  const spec = {
    ...plain,
    searches: [{ ...plain.searches[0], name: '<b>&"' }, ...plain.searches.slice(1)],
  } as typeof plain;
  const units = [0, 1, 2].map((index) => {
    const range = new CampaignRanges(spec).at(index);
    return partOf(spec, unitOf(spec, range));
  });
  return {
    part: units.reduce(mergeParts, noPart(spec)),
    waiting: 1,
    active: 0,
    workers: 2,
    runsPerSecond: 12_345.6,
    leftS: 3_700,
    elapsedS: 61,
    isOver: false,
    failed: [{ index: 3, why: 'out of <memory>' }],
    unkept: 0,
    mismatches: 0,
    pace: [
      { search: 0, atS: 0, runs: 50, violating: 1 },
      { search: 1, atS: 0, runs: 25, violating: 0 },
    ],
  };
}
