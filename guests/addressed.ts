import type { Command } from '../core/index.js';
import type { SimLock, SimNode } from '../sim/index.js';

/** Commands, and what they are about. */
export interface Addressed {
  readonly lock: SimLock;
  readonly command: Command;
  readonly said: string;
  readonly at: SimNode;
  /** What was done is answered by 0, or by nothing. */
  readonly isInverted: boolean;
}
