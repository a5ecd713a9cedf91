export { type Assumption, assumptions } from './assumptions.js';
export type { CoveragePoint } from './coverage.js';
export { type Judgement, judge, type KindVerdict } from './judge.js';
export { Monitors } from './monitors/monitors.js';
export type { Outage } from './monitors/outage.js';
export { SAFETY, SEARCHED } from './property-lists.js';
export type { Violation } from './violation.js';
