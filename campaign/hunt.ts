import { type Detection, detectMutant, MUTANTS, type StrategyName } from '../search/index.js';

/** The hunt for one planted bug. Plain data. */
export interface HuntTask {
  /** Of the planted bug. */
  readonly id: string;
  readonly seeds: number;
  readonly runs: number;
  readonly strategy: StrategyName;
  /** Whether to make the first counterexample small. */
  readonly shrink: boolean;
}

/** Hunts one planted bug, in this thread. */
export async function hunted({ id, ...options }: HuntTask, signal?: AbortSignal): Promise<Detection> {
  const mutant = MUTANTS.find((it) => it.id === id);
  if (mutant === undefined) throw new RangeError(`there is no planted bug ${id}`);
  return await detectMutant(mutant, { ...options, ...(signal && { signal }) });
}
