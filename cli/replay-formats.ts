import type { Judgement } from '../properties/index.js';
import { sceneOf, staticPicture, svgFile, tellingOf } from '../report/index.js';
import type { Schedule } from '../scenarios/index.js';

/** Forms of a run other than text, as `replay --format` names them. */
export type Format = 'svg';

/** A run that was judged with its trace. */
export interface Shown {
  readonly id: string;
  readonly schedule: Schedule;
  readonly judgement: Judgement;
}

/** A run in another form, as the whole text of a file. */
export const FORMATS: Readonly<Record<Format, (shown: Shown) => string>> = {
  svg: ({ schedule, judgement }) => svgFile(staticPicture(sceneOf(schedule, tellingOf(schedule, judgement)))),
};
