import { eachOf } from './each-of.js';
import { inOrder, NearMisses, type SharedNearMiss } from './near-misses.js';
import { type CampaignPart, mergeParts, noPart, partOf, totalOf, violatingRuns } from './part.js';
import { RangeMaker } from './range-maker.js';
import { CampaignRanges, type CampaignSpec, isGuided } from './spec.js';
import type { UnitResult } from './unit.js';

/** Which ranges of a campaign one machine makes, of so many: range k is of shard k modulo `of`. */
export interface Shard {
  /** From 1 to `of`. */
  readonly number: number;
  readonly of: number;
}

/** How a campaign, or a shard of one, is run on this machine. */
export interface LocalOptions {
  readonly spec: CampaignSpec;
  readonly shard: Shard;
  readonly workers: number;
  /** What an earlier run of the same shard has made. */
  readonly from?: CampaignPart;
  readonly signal: AbortSignal;
  /** Called with each further range. */
  readonly onPart: (part: CampaignPart, of: number) => void;
}

/** Makes the ranges of a shard on this machine, without a queue. */
export async function runShard(options: LocalOptions): Promise<CampaignPart> {
  const { spec, shard, workers, signal } = options;
  const began = performance.now();
  const ranges = new CampaignRanges(spec);
  let part = options.from ?? noPart(spec);
  const isDone = doneIn(part);
  const near = new NearMisses(part.near);
  const of = Math.ceil((ranges.count - shard.number + 1) / shard.of);
  const maker = new RangeMaker(spec, workers, workers === 1);
  const isOver = (): boolean =>
    (spec.budgetMs !== null && performance.now() - began >= spec.budgetMs) ||
    (spec.stopAfter !== null && violatingRuns(totalOf(part)) >= spec.stopAfter);
  function* left(): Generator<number> {
    for (let index = shard.number - 1; index < ranges.count && !isOver(); index += shard.of) {
      if (!isDone(index)) yield index;
    }
  }
  try {
    await eachOf(left(), workers, signal, async (index) => {
      const range = ranges.at(index);
      const inputs = isGuided(spec, range) ? near.of(range.search) : null;
      const unit = await maker.make(range, inOrder(inputs?.map(({ miss }) => miss) ?? []));
      if (signal.aborted) return;
      part = mergeParts(part, partOf(spec, unit, inputs === null ? {} : sharedWith(near, unit, inputs)));
      options.onPart(part, of);
    });
  } finally {
    await maker.close();
  }
  return part;
}

/** What a guided range is remembered by, and what it has to share. */
function sharedWith(
  near: NearMisses,
  { index, search, tally, nearest }: UnitResult,
  inputs: readonly SharedNearMiss[],
): Pick<CampaignPart, 'begun' | 'near'> {
  return {
    begun: { [index]: { hash: tally.hash, inputs: inputs.map(({ id }) => id) } },
    near: near.offer(search, nearest),
  };
}

function doneIn({ done }: CampaignPart): (index: number) => boolean {
  return (index) => done.some(([from, to]) => from <= index && index < to);
}
