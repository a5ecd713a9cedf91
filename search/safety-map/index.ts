export type { Axis } from './axis.js';
export type { CellVerdict } from './cell.js';
export { placeOn, sweepPlanOf, USUAL_ROOM } from './plan-text.js';
export { FAULT_FREE, PARAMETERS, type ParameterName, type Point } from './point.js';
export { agreementOf, type BoundaryWitness, edgeOf, type SafetyMap, sweep, type WitnessRun } from './safety-map.js';
export { cellAt, computedCrossings, type SweepPlan } from './sweep.js';
