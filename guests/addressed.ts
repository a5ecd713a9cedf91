import type { Command } from '../core/index.js';
import type { SimLock, SimNode } from '../sim/index.js';

/** Commands, and what they are about. */
export interface Addressed {
  readonly lock: SimLock;
  readonly command: Command;
  readonly said: string;
  readonly at: SimNode;
}
