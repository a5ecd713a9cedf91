/*
 * What real clients did, written down for `lockstep verify`.
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
