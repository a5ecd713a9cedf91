import { SOUND } from '../../core/index.js';
import type { LockNode } from './node.js';
import type { Seen } from './request.js';

/**
 * The keys that nodes have for a resource. It may be out of date when it arrives: for a safe decision, acquire the lock.
 */
export interface Inspection {
  /** One token on a quorum of nodes; no key on a quorum; or neither: a split vote, or too few answers. */
  readonly state: 'held' | 'free' | 'unclear';
  /** The holder's token, `lock.value`; `null` unless held. */
  readonly value: string | null;
  /** Time until a quorum of keys is gone, by the nodes' clocks, unless extended or released, ms; 0 unless held. */
  readonly remainingMs: number;
  /** Positions of nodes among the clients: those with the holder's token, with no key, with another token. */
  readonly holding: readonly number[];
  readonly empty: readonly number[];
  readonly other: readonly number[];
  /** Nodes that are not connected, answered with an error or too late, or whose answer was not needed. */
  readonly unanswered: readonly number[];
}

/** Asks all nodes, and waits until the state is known, at most for `withinMs`. */
export function inspect(nodes: readonly LockNode[], resource: string, withinMs: number): Promise<Inspection> {
  return new Promise((resolve) => {
    const seen: (Seen | undefined)[] = nodes.map(() => undefined);
    let pending = nodes.length;
    const settle = () => {
      clearTimeout(timer);
      resolve(conclude(seen));
    };
    const timer = setTimeout(settle, withinMs);
    for (const [index, node] of nodes.entries()) {
      node
        .look(resource)
        .then(
          (found) => {
            seen[index] = found;
          },
          () => undefined,
        )
        .then(() => {
          pending--;
          if (pending === 0 || conclude(seen).state !== 'unclear') settle();
        });
    }
  });
}

function conclude(seen: readonly (Seen | undefined)[]): Inspection {
  const quorum = SOUND.quorum(seen.length, 'acquire');
  const where = (test: (found: Seen | undefined) => boolean): number[] =>
    seen.flatMap((found, index) => (test(found) ? [index] : []));
  const value = seen.find((found) => found && countOf(seen, found.token) >= quorum)?.token ?? null;
  const holding = where((found) => value !== null && found?.token === value);
  const empty = where((found) => found === null);
  const left = holding.map((index) => seen[index]?.leftMs ?? 0).sort((a, b) => b - a);
  return {
    state: value !== null ? 'held' : empty.length >= quorum ? 'free' : 'unclear',
    value,
    remainingMs: left[quorum - 1] ?? 0,
    holding,
    empty,
    other: where((found) => found != null && found.token !== value),
    unanswered: where((found) => found === undefined),
  };
}

function countOf(seen: readonly (Seen | undefined)[], token: string): number {
  return seen.filter((found) => found?.token === token).length;
}
