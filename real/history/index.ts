/*
 * What real clients did, written down for `lockstep verify`.
 */
export type { HistoryLine, HistoryLineType } from '../../scenarios/history-line.js';
export {
  type HistoryFile,
  type HistorySink,
  openHistory,
  RecordedLock,
  Recorder,
  type RecorderOptions,
} from './recorder.js';
