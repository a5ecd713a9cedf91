import type { LibraryCell, LibraryRef, LibraryTestPlan } from '../libraries/test-library.js';
import { InputError } from '../scenarios/index.js';
import { eachOf } from './each-of.js';
import type { LibraryCells } from './library-tasks.js';
import { WorkerPool } from './pool.js';

/** A row of the matrix of libraries and faults. */
export interface MatrixRow {
  readonly id: string;
  readonly library: string;
  readonly version: string;
  readonly belief: string;
  /** On how many nodes it runs; `null` where each class of faults says that. */
  readonly nodes: number | null;
  readonly cells: readonly LibraryCell[];
  /** Why the library could not be run, or not to the end. */
  readonly error: string | null;
}

/** How the matrix of libraries is made. */
export interface MatrixOptions {
  readonly workers: number;
  readonly signal: AbortSignal;
  /** Called with whose further cells there are, and how many cells there are by then. */
  readonly onCells?: (id: string, done: number) => void;
}

/** Classes of faults that one worker makes in turn: a fresh one costs as much as some hundred runs. */
const CLASSES = 4;

/** What came of some cells of a row: they, or why there are none. */
interface Outcome {
  readonly id: string;
  readonly made: LibraryCells | null;
  readonly error: string | null;
}

/**
 * Tests libraries with classes of faults. Some cells of one library at a time are made by a fresh worker, so that none
 * meets what another library has left behind; which ones are together does not depend on how many workers there are.
 *
 * @throws InputError for a file of one's own that makes no lock.
 */
export async function runMatrix(
  libraries: readonly LibraryRef[],
  faults: readonly string[],
  plan: Pick<LibraryTestPlan, 'runs' | 'seed' | 'shrink' | 'nodes'>,
  { workers, signal, onCells }: MatrixOptions,
): Promise<MatrixRow[]> {
  const tasks = libraries.flatMap((library) =>
    inGroups(faults).map((some): LibraryTestPlan => ({ ...plan, library, faults: some })),
  );
  const size = Math.min(workers, tasks.length);
  const pool = new WorkerPool(size, 'fresh thread');
  let done = 0;
  try {
    const outcomes = await eachOf(tasks, size, signal, async (task): Promise<Outcome> => {
      const { id } = task.library;
      try {
        const made = await pool.run('testCells', task);
        done += task.faults.length;
        onCells?.(id, done);
        return { id, made, error: null };
      } catch (error) {
        return { id, made: null, error: error instanceof Error ? error.message : String(error) };
      }
    });
    const refused = outcomes.find(({ made }) => made !== null && made.refused !== null)?.made?.refused;
    if (typeof refused === 'string') throw new InputError(refused);
    return libraries
      .map(({ id }) =>
        rowOf(
          id,
          outcomes.filter((it) => it.id === id),
        ),
      )
      .filter((row) => row !== null);
  } finally {
    await pool.close();
  }
}

/** `null` where no cell was made. */
function rowOf(id: string, outcomes: readonly Outcome[]): MatrixRow | null {
  if (outcomes.length === 0) return null;
  const made = outcomes.flatMap((it) => it.made ?? []);
  const { library, version, belief, nodes } = made[0] ?? { library: id, version: '', belief: '', nodes: null };
  const error = outcomes.find((it) => it.error !== null)?.error ?? null;
  return { id, library, version, belief, nodes, cells: made.flatMap(({ cells }) => cells), error };
}

function inGroups(faults: readonly string[]): string[][] {
  const starts = faults.map((_, i) => i).filter((i) => i % CLASSES === 0);
  return starts.map((start) => faults.slice(start, start + CLASSES));
}
