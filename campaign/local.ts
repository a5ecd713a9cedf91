import { eachOf } from './each-of.js';
import { type CampaignPart, mergeParts, noPart, partOf, totalOf, violatingRuns } from './part.js';
import { RangeRunner } from './range-runner.js';
import { CampaignRanges, type CampaignSpec } from './spec.js';

/** Which ranges of a campaign one machine makes, of so many: range k is of shard k modulo `of`. */
export interface Shard {
  /** From 1 to `of`. */
  readonly number: number;
  readonly of: number;
}

/** How a campaign, or a shard of one, is run on this machine. */
interface LocalOptions {
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
  const of = Math.ceil((ranges.count - shard.number + 1) / shard.of);
  const maker = new RangeRunner(spec, workers, workers === 1);
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
      const unit = await maker.make(ranges.at(index));
      if (signal.aborted) return;
      part = mergeParts(part, partOf(spec, unit));
      options.onPart(part, of);
    });
  } finally {
    await maker.close();
  }
  return part;
}

function doneIn({ done }: CampaignPart): (index: number) => boolean {
  return (index) => done.some(([from, to]) => from <= index && index < to);
}
