import { COUNTER_HEADROOM, COUNTER_KEYS, MOST_COUNTER, RECOVER_COUNTER, SOUND } from '../../core/index.js';
import { configError, LockError } from './errors.js';
import type { LockNode } from './node.js';

/** What one node told in time; `undefined` if it did not. */
type Told<T> = T | undefined;

/**
 * Gives the nodes fencing counters above everything that was handed out, and above what was on its way to be.
 *
 * @throws LockError `ERR_LOCK_CONFIG` for a number that cannot be right, `ERR_LOCK_QUORUM_UNREACHABLE` if too few nodes
 * answer: those that did have the counter, and it can be done again.
 */
export async function recoverCounters(nodes: readonly LockNode[], above: number, withinMs: number): Promise<void> {
  if (!Number.isSafeInteger(above) || above < 0 || above > MOST_COUNTER - COUNTER_HEADROOM) {
    const most = MOST_COUNTER - COUNTER_HEADROOM;
    throw configError(`The greatest fencing token so far must be a whole number from 0 to ${most}.`, 'recover');
  }
  const stored = await askAll(nodes, withinMs, async (node) => counterIn(await node.stored(COUNTER_KEYS[0])));
  const highest = Math.max(0, ...stored.map((counter) => counter ?? 0));
  if (highest > above) {
    const holder = stored.indexOf(highest);
    throw configError(
      `n${holder} has the fencing counter ${highest}, so that the greatest token so far cannot have been ${above}.`,
      'recover',
    );
  }
  // Whether nodes are new can only be told if all of them are asked.
  const needed = above === 0 ? nodes.length : SOUND.quorum(nodes.length, 'acquire');
  checkEnough(stored, needed);
  const value = above === 0 ? 0 : above + COUNTER_HEADROOM;
  const set = await askAll(nodes, withinMs, (node) => node.evaluate(RECOVER_COUNTER, COUNTER_KEYS, [value]));
  checkEnough(set, needed);
}

function counterIn(text: unknown): number {
  return typeof text === 'string' && /^\d{1,15} [0-9a-f]+$/.test(text) ? Number.parseInt(text, 10) : 0;
}

function checkEnough(told: readonly Told<unknown>[], needed: number): void {
  const answered = told.filter((it) => it !== undefined).length;
  if (answered >= needed) return;
  const away = told.flatMap((it, index) => (it === undefined ? [`n${index}`] : []));
  throw new LockError(`${needed} nodes have to answer to recover fencing; ${away.join(', ')} did not.`, {
    code: 'ERR_LOCK_QUORUM_UNREACHABLE',
    operation: 'recover',
  });
}

function askAll<T>(
  nodes: readonly LockNode[],
  withinMs: number,
  ask: (node: LockNode) => Promise<T>,
): Promise<Told<T>[]> {
  return Promise.all(
    nodes.map(async (node) => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<undefined>((resolve) => {
        timer = setTimeout(resolve, withinMs, undefined);
      });
      // A node that is away is no failure: it is counted.
      return Promise.race([ask(node).catch(() => undefined), late]).finally(() => clearTimeout(timer));
    }),
  );
}
