export { runTorture } from './torture.js';
export type { ChaosPhase, TortureResult } from './types.js';
