import { eachOf } from './each-of.js';
import { type CampaignPart, mergeParts, noPart, partOf, totalOf, violatingRuns } from './part.js';
import { Pool } from './pool.js';
import { type CampaignRange, CampaignRanges, type CampaignSpec } from './spec.js';
import { runUnit, type UnitResult } from './unit.js';

/** Which ranges of a campaign one machine makes, of so many: range k is of shard k modulo `of`. */
export interface Shard {
  /** From 1 to `of`. */
  readonly number: number;
  readonly of: number;
}

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
  const of = Math.ceil((ranges.count - shard.number + 1) / shard.of);
  const pool = workers > 1 ? new Pool(workers, 'thread') : null;
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
      const unit = await makeUnit(spec, ranges.at(index), pool);
      if (signal.aborted) return;
      part = mergeParts(part, partOf(spec, unit));
      options.onPart(part, of);
    });
  } finally {
    await pool?.close();
  }
  return part;
}

/** Makes one range, by a worker if there is a pool of them. */
export async function makeUnit(spec: CampaignSpec, range: CampaignRange, pool: Pool | null): Promise<UnitResult> {
  const plan = spec.searches[range.search]?.plan ?? spec.searches[0].plan;
  if (pool !== null) return await pool.run('unit', { plan, range });
  // So that signals get through between ranges.
  await new Promise((resolve) => setImmediate(resolve));
  return runUnit(plan, range);
}

function doneIn({ done }: CampaignPart): (index: number) => boolean {
  return (index) => done.some(([from, to]) => from <= index && index < to);
}
