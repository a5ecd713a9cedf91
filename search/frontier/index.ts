export { type Axis, axisOver, USUAL_RANGES } from './axis.js';
export type { CellVerdict } from './cell.js';
export { agreementOf, type BoundaryWitness, edgeOf, type SafetyMap, sweep, type WitnessRun } from './frontier.js';
export { FAULT_FREE, PARAMETERS, type ParameterName, type Point } from './point.js';
export { computedCrossings, type SweepPlan } from './sweep.js';
