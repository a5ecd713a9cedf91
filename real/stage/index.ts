export type { Interval, Lateness, Observation, Waiting } from './observation.js';
export { type PlayOptions, playOnRedis, unplayableBecause } from './stage.js';
