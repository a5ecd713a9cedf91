export { passPage } from './page.js';
export type {
  BoundDistance,
  Change,
  Command,
  EstimateRow,
  Fact,
  LinesOfFile,
  MapOfPass,
  PassReport,
  PassSection,
} from './pass-report.js';
