export { type Claim, claimsOf } from './claims.js';
export { type CounterexampleText, formatCounterexample, MOST_LINES } from './counterexample.js';
export { type Comparison, compare, type Named, partingSentence } from './diff.js';
export { formatDiff } from './diff-text.js';
export { mermaid } from './mermaid.js';
export { neededWords } from './needed.js';
export { takenOfObserved } from './observed.js';
export { ANSI, type Painter, PLAIN } from './painter.js';
export type { Payload } from './payload.js';
export { payloadOf, type RecordingInput, type Report, type ReportInput, recordingOf, reportOf } from './payload-of.js';
export { perfetto } from './perfetto.js';
export * from './picture/index.js';
export { type Prevention, preventions } from './prevention.js';
export type { Row, RowKind } from './row.js';
export { assumptionLines, outageSentence, violationSentence } from './story.js';
export { WIDTH } from './table.js';
export { type Taken, takenOf } from './taken.js';
export { formatTimeline, type Telling, type TimelineOptions, tellingOf } from './timeline.js';
export {
  ASSUMPTION_WORDS,
  configLine,
  countWords,
  enumerate,
  percentWords,
  plural,
  propertyWords,
  wrap,
} from './words.js';
