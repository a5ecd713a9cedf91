export { type Assumption, assumptions } from './assumptions.js';
export { type CheckProgress, type CheckResult, check } from './check.js';
export type { Counterexample } from './counterexample.js';
export type { Situation } from './coverage.js';
export { type ExploreBounds, SMALL_WORLD, whatIsWrong } from './explorer/bounds.js';
export type { Checkpoint } from './explorer/checkpoint.js';
export { scheduleOf } from './explorer/counterexample.js';
export {
  type Exploration,
  type ExploreOptions,
  type ExploreProgress,
  Explorer,
  explore,
  MOST_STATES,
} from './explorer/explore.js';
export { everything, type LivenessResult, livenessOf } from './explorer/liveness.js';
export { type Judgement, judge, type KindVerdict } from './judge.js';
export { Monitors } from './monitors/monitors.js';
export type { Outage } from './monitors/outage.js';
export { type Catch, HUNT_RUNS, HUNT_SEEDS, hunt } from './mutants/hunt.js';
export { fieldsOfChange, MUTANTS } from './mutants/registry.js';
export { MONITORED, SAFETY } from './property-lists.js';
export { boundsOf } from './search/bounds.js';
export type { Crew } from './search/crew.js';
export { drawRun } from './search/drawn-run.js';
export type { NearMiss } from './search/near-miss.js';
export { searchRange } from './search/range.js';
export { greatestShare } from './search/share.js';
export { STRATEGY_INFO, STRATEGY_NAMES, type StrategyName } from './search/strategy-info.js';
export { past, type Strain, WITHIN_ASSUMPTIONS } from './search/weather.js';
export type { Explained } from './shrinking/explain.js';
export { SITUATIONS, unasked } from './situations.js';
export type { Violation } from './violation.js';
