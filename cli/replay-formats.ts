import { htmlReport } from '../report/html.js';
import {
  mermaid,
  payloadOf,
  perfetto,
  type ReportInput,
  type Scene,
  sceneOf,
  staticPicture,
  svgFile,
  takenOf,
} from '../report/index.js';

/** Forms of a run other than text and the trace, as `replay --format` names them. */
export type Format = 'svg' | 'html' | 'mermaid' | 'perfetto';

/** A run in another form, as the whole text of a file. */
export const FORMATS: Readonly<Record<Format, (shown: ReportInput) => string>> = {
  svg: (shown) => svgFile(staticPicture(sceneShown(shown))),
  mermaid: (shown) => mermaid(sceneShown(shown)),
  perfetto: (shown) => `${JSON.stringify(perfetto(sceneShown(shown)))}\n`,
  html: (shown) => htmlReport(payloadOf(shown)),
};

/** What a picture of a run is made from. */
export function sceneShown({ schedule, judgement }: Pick<ReportInput, 'schedule' | 'judgement'>): Scene {
  return sceneOf(schedule, takenOf(schedule, judgement));
}
