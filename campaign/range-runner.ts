import { inlineFor } from './inlining.js';
import { canWork, type WorkerKind, WorkerPool } from './pool.js';
import { type CampaignRange, type CampaignSpec, isLibrary } from './spec.js';
import { runUnit, type UnitResult } from './unit.js';

/** Makes ranges of a campaign, so many at a time at most. */
export class RangeRunner {
  private readonly spec: CampaignSpec;
  private readonly size: number;
  private readonly isHere: boolean;
  private readonly pools = new Map<WorkerKind, WorkerPool>();

  /** @param isHere - Whether to make ranges of the lock of `core` in this thread, which is then busy for as long. */
  constructor(spec: CampaignSpec, size: number, isHere: boolean) {
    inlineFor(spec.runs);
    this.spec = spec;
    this.size = size;
    this.isHere = isHere || !canWork();
  }

  /** Makes one range. */
  async make(range: CampaignRange): Promise<UnitResult> {
    const plan = this.spec.searches[range.search]?.plan ?? this.spec.searches[0].plan;
    if (isLibrary(plan)) {
      // Whatever a library leaves behind is gone with its thread.
      if (canWork()) return await this.pool('fresh thread').run('libraryUnit', { plan, range });
      const { runLibraryUnit } = await import('./library-unit.js');
      return await runLibraryUnit(plan, range);
    }
    if (!this.isHere) return await this.pool('thread').run('unit', { plan, range });
    // So that signals get through between ranges.
    await new Promise((resolve) => setImmediate(resolve));
    return runUnit(plan, range);
  }

  private pool(kind: WorkerKind): WorkerPool {
    const pool = this.pools.get(kind) ?? new WorkerPool(this.size, kind);
    this.pools.set(kind, pool);
    return pool;
  }

  async close(): Promise<void> {
    await Promise.all([...this.pools.values()].map((pool) => pool.close()));
  }
}

/** Makes one range, and no other. */
export async function runInline(spec: CampaignSpec, range: CampaignRange): Promise<UnitResult> {
  const maker = new RangeRunner(spec, 1, true);
  try {
    return await maker.make(range);
  } finally {
    await maker.close();
  }
}
