export { type Axis, axisOver, type Range, USUAL_RANGES } from './axis.js';
export { type Cell, type CellVerdict, measure } from './cell.js';
export { agreementOf, type Edge, type Exemplar, edgeOf, type Frontier, sweep } from './frontier.js';
export { CALM, PARAMETERS, type ParameterName, type Point } from './point.js';
export { type Boundary, type Column, computedCrossings, measureColumn, type SweepPlan } from './sweep.js';
export { computed } from './theory.js';
