export { threadCrew } from './crew.js';
export { canWork, defaultWorkers, Pool } from './pool.js';
