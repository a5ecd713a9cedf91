export { DEFAULT_SCOPE, type ExploreScope, type NodeSetChange, scopeError } from './bounds.js';
export type { Checkpoint } from './checkpoint.js';
export { scheduleOf } from './counterexample.js';
export {
  type Exploration,
  type ExploreOptions,
  type ExploreProgress,
  Explorer,
  explore,
  MOST_STATES,
} from './explore.js';
export { everything, type LivenessResult, livenessOf } from './liveness.js';
