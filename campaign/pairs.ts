import type { Library } from '../libraries/adapters/index.js';
import { canShareKey, type Migration } from '../libraries/mix.js';
import type { PairPlan, PairResult } from '../libraries/search/pairs.js';
import { eachOf } from './each-of.js';
import { WorkerPool } from './pool.js';

/** Two libraries beside each other: what came of it. */
export interface PairCell extends PairResult, Migration {
  /** Whose clients hold the lock. */
  readonly old: string;
  readonly joining: string;
}

/** A matrix of pairs, and what each of its libraries does by itself. */
export interface PairMatrix {
  readonly cells: readonly PairCell[];
  /** By library: what it sends for one lock. */
  readonly commands: ReadonlyMap<string, readonly string[]>;
}

/** How a matrix of pairs is made. */
interface PairOptions {
  readonly workers: number;
  readonly signal: AbortSignal;
  /** Called with how many pairs there are by then, of how many. */
  readonly onPairs?: (done: number, all: number) => void;
}

/** The ways in which libraries are put beside each other: on one node that all share, and on three. */
export const MIGRATIONS: readonly Migration[] = [
  { nodes: 1, sameKey: false },
  { nodes: 1, sameKey: true },
  { nodes: 3, sameKey: false },
  { nodes: 3, sameKey: true },
];

/** Whether that is another world than those before it: of two that are made for one node no other has a part in it. */
export function isOf({ nodes, sameKey }: Migration, old: Library, joining: Library): boolean {
  const areForOne = old.nodes === 1 && joining.nodes === 1;
  return !(nodes > 1 && areForOne) && (!sameKey || canShareKey(old, joining));
}

/** Puts each of the old libraries beside each of the others, in fresh workers. */
export async function runPairs(
  old: readonly Library[],
  joining: readonly Library[],
  plan: Pick<PairPlan, 'runs' | 'seed'> & { readonly migrations: readonly Migration[] },
  { workers, signal, onPairs }: PairOptions,
): Promise<PairMatrix> {
  const { migrations, ...search } = plan;
  const pool = new WorkerPool(workers, 'fresh thread');
  try {
    const all = [...new Set([...old, ...joining])];
    const sizes = [...new Set(migrations.map(({ nodes }) => nodes))];
    const by = sizes.flatMap((nodes) => all.map(({ id }) => ({ id, plan: { ...search, nodes, sameKey: false } })));
    const known = await eachOf(by, workers, signal, async (task) => ({ ...task, made: await pool.run('alone', task) }));
    const withstood = ({ id }: Library, nodes: number): readonly string[] =>
      known.find((it) => it.id === id && it.plan.nodes === nodes)?.made.withstood ?? [];
    const tasks = migrations.flatMap((migration) =>
      old.map((first) => ({
        old: first.id,
        plan: { ...search, ...migration },
        joining: joining
          .filter((other) => isOf(migration, first, other))
          .map((other) => {
            const its = withstood(first, migration.nodes);
            return { id: other.id, withstood: withstood(other, migration.nodes).filter((it) => its.includes(it)) };
          }),
      })),
    );
    const count = tasks.reduce((sum, it) => sum + it.joining.length, 0);
    let done = 0;
    const rows = await eachOf(tasks, workers, signal, async (task) => {
      const made = task.joining.length === 0 ? [] : await pool.run('pairs', task);
      done += made.length;
      onPairs?.(done, count);
      const { nodes, sameKey } = task.plan;
      return made.flatMap((it, at): PairCell[] => {
        const other = task.joining[at];
        return other === undefined ? [] : [{ old: task.old, joining: other.id, nodes, sameKey, ...it }];
      });
    });
    return { cells: rows.flat(), commands: new Map(known.map(({ id, made }) => [id, made.commands])) };
  } finally {
    await pool.close();
  }
}
