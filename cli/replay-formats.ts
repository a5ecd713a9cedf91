import { htmlReport } from '../report/html.js';
import {
  mermaid,
  payloadOf,
  type ReportInput,
  type Scene,
  sceneOf,
  snapshotOf,
  staticPicture,
  svgFile,
} from '../report/index.js';
import { perfettoText } from '../report/perfetto.js';
import type { Io } from './io.js';

/** Forms of a run other than text and the trace, as `replay --format` names them. */
type Format = 'svg' | 'html' | 'mermaid' | 'perfetto';

/** The text of a run in another form; what is long comes in pieces. */
const FORMATS: Readonly<Record<Format, (shown: ReportInput) => readonly string[] | Generator<string, void>>> = {
  svg: (shown) => [svgFile(staticPicture(sceneShown(shown)))],
  mermaid: (shown) => [mermaid(sceneShown(shown))],
  perfetto: (shown) => perfettoText(sceneShown(shown)),
  html: (shown) => [htmlReport(payloadOf(shown))],
};

/** Writes a run in another form to stdout. */
export function writeForm(format: Format, shown: ReportInput, io: Io): void {
  for (const piece of FORMATS[format](shown)) io.stdout.write(piece);
}

/** What a picture of a run is made from. */
export function sceneShown({ schedule, judgement }: Pick<ReportInput, 'schedule' | 'judgement'>): Scene {
  return sceneOf(schedule, snapshotOf(schedule, judgement));
}
