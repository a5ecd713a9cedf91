import type { PolicyChange } from '../../deviations/index.js';
import type { PropertyId } from '../../scenarios/index.js';
import type { FaultModel } from '../fault-model.js';

/** A bug planted on purpose: the lock deviates in a rule, or one line of the settings or of the world is changed. */
export interface Mutant {
  readonly id: string;
  /** What is wrong, and what follows. */
  readonly story: string;
  /** Where it has been seen in the wild. */
  readonly instance: string;
  readonly change: Change;
  /** The sound policy in which it is planted, as far as it is not the usual one. */
  readonly base?: PolicyChange;
  /** What it is hunted by, where others would give it away for something else first. Default: every property. */
  readonly by?: readonly PropertyId[];
  /** The fault model in which it is hunted, as far as it is not the usual one. The reference withstands it. */
  readonly faultModel?: Partial<Omit<FaultModel, 'policy'>>;
  /** The property that is expected to break first. */
  readonly expect: PropertyId;
}

/** What is added to the policy, or fields of the world that its users give it. */
interface Change extends PolicyChange {
  readonly world?: Partial<Omit<FaultModel, 'policy'>>;
}
