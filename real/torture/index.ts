export { runTorture } from './torture.js';
export type { ChaosPhase, TortureClient, TortureResult } from './types.js';
