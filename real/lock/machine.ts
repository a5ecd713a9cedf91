import { ChancePool, systemChance } from './chance.js';
import { LocalClock, systemClock } from './clock.js';

/** What the locks of one process have in common. */
export interface Machine {
  readonly clock: LocalClock;
  readonly chance: ChancePool;
}

/** That of this process. */
export const THIS_MACHINE: Machine = { clock: systemClock, chance: systemChance };

/** One that begins now, with the clocks and the randomness that are there: for each simulated process of a thread. */
export function newMachine(): Machine {
  return { clock: new LocalClock(), chance: new ChancePool(4) };
}
