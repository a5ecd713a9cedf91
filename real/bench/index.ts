export { formatBench, formatSafety } from './format.js';
export { drawBench } from './picture.js';
export { runBench } from './run.js';
export { runSafety } from './safety.js';
export * from './types.js';
