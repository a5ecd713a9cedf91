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
  let next = shard.number - 1;
  const pool = workers > 1 ? new Pool(workers, 'thread') : null;
  let stop: () => void = () => {};
  const stopped = new Promise<null>((resolve) => {
    stop = () => resolve(null);
  });
  signal.addEventListener('abort', stop, { once: true });
  const isOver = (): boolean =>
    signal.aborted ||
    (spec.budgetMs !== null && performance.now() - began >= spec.budgetMs) ||
    (spec.stopAfter !== null && violatingRuns(totalOf(part)) >= spec.stopAfter);
  /** One of as many as there are workers: takes the next range while there is one. */
  const work = async (): Promise<void> => {
    while (!isOver()) {
      while (isDone(next)) next += shard.of;
      const index = next;
      if (index >= ranges.count) return;
      next += shard.of;
      const unit = await Promise.race([makeUnit(spec, ranges.at(index), pool), stopped]);
      if (unit === null) return;
      part = mergeParts(part, partOf(spec, unit));
      options.onPart(part, of);
    }
  };
  try {
    await Promise.all(Array.from({ length: workers }, work));
  } finally {
    signal.removeEventListener('abort', stop);
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
