export { runTorture } from './torture.js';
export type { Torment, TortureOptions, TortureProgress, TortureResult, Weather } from './types.js';
