export type { Observation } from './observation.js';
export { playOnRedis } from './stage.js';
export { notReplayableReason } from './unplayable.js';
