export { passPage } from './page.js';
export type {
  BoundDistance,
  Change,
  Command,
  Fact,
  LinesOfFile,
  MapOfPass,
  PassReport,
} from './pass-report.js';
