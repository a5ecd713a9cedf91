export { runChaos } from './chaos.js';
export type { ChaosClient, ChaosPhase, ChaosResult } from './types.js';
