export { runTorture } from './torture.js';
export type { TortureResult, Weather } from './types.js';
