export {
  type Course,
  type CourseOptions,
  clientArbitrary,
  courseArbitrary,
  fateArbitrary,
  faultArbitrary,
} from './arbitraries/schedule.js';
export { clusterArbitrary, type ScheduleOptions, scheduleArbitrary } from './arbitraries/whole.js';
export { type Assumption, assumptions } from './assumptions.js';
export { type CheckOptions, type CheckProgress, type CheckResult, check } from './check.js';
export { type Counterexample, counterexampleOf } from './counterexample.js';
export { courseOf, withCourse } from './course.js';
export type { Counts, Situation } from './coverage.js';
export { type ExploreBounds, type ExploredProperty, SMALL_WORLD, whatIsWrong } from './explorer/bounds.js';
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
export { everything, exploreLiveness, type LivenessResult, livenessOf } from './explorer/liveness.js';
export { type Judgement, judge, type KindVerdict } from './judge.js';
export { Monitors } from './monitors/monitors.js';
export type { Outage } from './monitors/outage.js';
export { type Catch, HUNT_RUNS, HUNT_SEEDS, type HuntOptions, hunt } from './mutants/hunt.js';
export { type Change, fieldsOfChange, MUTANTS, type Mutant, weatherFor } from './mutants/registry.js';
export { MONITORED, SAFETY, SEARCHED } from './property-lists.js';
export { type Bounds, boundsOf } from './search/bounds.js';
export type { Crew } from './search/crew.js';
export { drawRun, recordRun } from './search/drawn-run.js';
export type { NearMiss } from './search/near-miss.js';
export { type Finding, type RangeResult, recordOf, type SearchPlan, searchRange } from './search/range.js';
export { greatestShare } from './search/share.js';
export { STRATEGY_INFO, STRATEGY_NAMES, type StrategyInfo, type StrategyName } from './search/strategy-info.js';
export { noTally, sumOf, type Tally } from './search/tally.js';
export { past, type Strain, type Stretch, type Weather, WITHIN_ASSUMPTIONS } from './search/weather.js';
export { type Shrunk, shrink, shrinkWhile } from './shrink.js';
export { type Explained, explain } from './shrinking/explain.js';
export { SITUATIONS, unasked } from './situations.js';
export type { Violation } from './violation.js';
