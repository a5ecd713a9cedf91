import type { Operation } from '../core/index.js';
import type { Fault, ProcessName } from '../scenarios/index.js';

/** A node out of order by itself, from the beginning to the end of a run. */
export function outage(
  how: 'dead' | 'hung' | 'refusing',
  node: ProcessName,
  untilUs: number,
  operations: readonly Operation[],
): Fault {
  const span = { atUs: 0, forUs: untilUs + 1 };
  switch (how) {
    case 'dead':
      return { kind: 'crash', node, atUs: 0, restartAfterUs: null };
    case 'hung':
      return { kind: 'pause', process: node, ...span };
    case 'refusing':
      return { kind: 'error-replies', node, operations, ...span };
  }
}
