export { formatBench } from './format.js';
export { runBench } from './run.js';
export type {
  BenchMachine,
  BenchOptions,
  BenchProgress,
  BenchResult,
  BenchRow,
  Health,
  Shape,
  SubjectName,
} from './types.js';
