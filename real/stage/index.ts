export type { Lateness, Observation } from './observation.js';
export { playOnRedis, unplayableBecause } from './stage.js';
