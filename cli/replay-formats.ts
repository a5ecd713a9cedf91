import type { Judgement } from '../properties/index.js';
import { htmlReport } from '../report/html.js';
import { mermaid, payloadOf, perfetto, type Scene, sceneOf, staticPicture, svgFile, takenOf } from '../report/index.js';
import type { Scenario, Schedule } from '../scenarios/index.js';

/** Forms of a run other than text and the trace, as `replay --format` names them. */
export type Format = 'svg' | 'html' | 'mermaid' | 'perfetto';

/** A run that was judged with its trace. */
export interface Shown {
  readonly id: string;
  readonly schedule: Schedule;
  readonly scenario: Scenario | null;
  readonly judgement: Judgement;
  /** The command that shows it again. */
  readonly replay: string;
}

/** A run in another form, as the whole text of a file. */
export const FORMATS: Readonly<Record<Format, (shown: Shown) => string>> = {
  svg: (shown) => svgFile(staticPicture(sceneShown(shown))),
  mermaid: (shown) => mermaid(sceneShown(shown)),
  perfetto: (shown) => `${JSON.stringify(perfetto(sceneShown(shown)))}\n`,
  html: (shown) => htmlReport(payloadOf(shown)),
};

/** What a picture of a run is made from. */
export function sceneShown({ schedule, judgement }: Pick<Shown, 'schedule' | 'judgement'>): Scene {
  return sceneOf(schedule, takenOf(schedule, judgement));
}
