/*
 * What real clients did, written down for `lockstep verify`; and what the lock wrote of its steps, replayed.
 */
export type { CrashedLine, HistoryLine, HistoryLineType, LockLine } from '../../scenarios/history-line.js';
export {
  type HistoryFile,
  type HistorySink,
  openHistory,
  type RecordableLock,
  type RecordableRedlock,
  RecordedLock,
  Recorder,
  type RecorderOptions,
} from './recorder.js';
export { replaySteps, type StepDifference, type StepsReplay } from './steps.js';
