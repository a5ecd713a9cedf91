export type { Observation } from './observation.js';
export { playOnRedis } from './stage.js';
export { unplayableBecause } from './unplayable.js';
