export { formatBench } from './format.js';
export { runBench } from './run.js';
export * from './types.js';
