export { type Axis, axisOver, USUAL_RANGES } from './axis.js';
export type { CellVerdict } from './cell.js';
export { agreementOf, type Edge, type Exemplar, edgeOf, type Frontier, sweep } from './frontier.js';
export { CALM, PARAMETERS, type ParameterName, type Point } from './point.js';
export { computedCrossings, type SweepPlan } from './sweep.js';
