// Before anything that a library may load.
import '../libraries/runtime/installed.js';
import { type AloneResult, type PairPlan, type PairResult, searchPair, testAlone } from '../libraries/search/pairs.js';
import {
  type LibraryCell,
  type LibraryTestPlan,
  loadLibrary,
  type TestedLibrary,
  testLibrary,
} from '../libraries/test-library.js';
import { InputError } from '../scenarios/index.js';
import { runLibraryUnit } from './library-unit.js';
import type { CampaignRange, LibraryPlan } from './spec.js';
import type { UnitResult } from './unit.js';

/*
 * What workers do with libraries. Each task needs a fresh worker: libraries leave behind what they like.
 */

/** What came of one library with some classes of faults. */
export interface LibraryCells extends TestedLibrary {
  readonly cells: readonly LibraryCell[];
  /** What is wrong with a file of one's own. An error would come out of its worker without its name. */
  readonly refused: string | null;
}

/** A whole range of a campaign with a library. */
export function libraryUnit({
  plan,
  range,
}: {
  readonly plan: LibraryPlan;
  readonly range: CampaignRange;
}): Promise<UnitResult> {
  return runLibraryUnit(plan, range);
}

/** Tests one library. */
export async function testCells(plan: LibraryTestPlan): Promise<LibraryCells> {
  let about: TestedLibrary = { library: plan.library.id, version: '', belief: '', nodes: null };
  const cells: LibraryCell[] = [];
  try {
    await testLibrary(plan, (news) => {
      if (news.type === 'library') about = news.about;
      if (news.type === 'cell') cells.push(news.cell);
    });
  } catch (error) {
    if (error instanceof InputError) return { ...about, cells, refused: error.message };
    throw error;
  }
  return { ...about, cells, refused: null };
}

/** What one library of the matrix does by itself, before it is put beside others. */
export async function alone({ id, plan }: { readonly id: string; readonly plan: PairPlan }): Promise<AloneResult> {
  return testAlone(await loadLibrary({ id }), plan);
}

/** Some pairs: an old library, and those that join it, each with the classes of faults that both withstand. */
export interface PairTask {
  readonly old: string;
  readonly joining: readonly { readonly id: string; readonly withstood: readonly string[] }[];
  readonly plan: PairPlan;
}

/** Puts libraries beside another, one after the other. */
export async function pairs({ old, joining, plan }: PairTask): Promise<PairResult[]> {
  const first = await loadLibrary({ id: old });
  const results: PairResult[] = [];
  for (const { id, withstood } of joining)
    results.push(await searchPair(first, await loadLibrary({ id }), (it) => withstood.includes(it), plan));
  return results;
}
