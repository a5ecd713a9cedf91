import type { Schedule } from '../scenarios/index.js';
import { formatList } from '../text/format.js';
import { type Answers, answersOf } from './answers.js';
import type { ReportContext } from './report-context.js';
import { assumptionLines, mostSevere, outageSentence, violationSentence } from './story.js';
import { configLine, propertyLabel } from './words.js';

/** What is written over a picture. */
export interface Heading {
  readonly verdict: 'bad' | 'good';
  /** `mutual exclusion`. */
  readonly title: string;
  readonly sentences: readonly string[];
  readonly config: string;
  /** `null` where nothing went wrong. */
  readonly answers: Answers | null;
}

/** More are only counted. */
const MOST_SENTENCES = 3;

/** Verdict, sentences and configuration of a run. */
export function headingOf(schedule: Schedule, telling: ReportContext, lock: 'own' | 'foreign'): Heading {
  const { judgement } = telling;
  const violations = mostSevere(judgement.violations);
  const all = [...violations, ...judgement.outages];
  const sentences = all
    .slice(0, MOST_SENTENCES)
    .map((it) =>
      'property' in it ? violationSentence(it, { ...telling, endUs: schedule.untilUs }) : outageSentence(it, telling),
    );
  const kinds = [...new Set(violations.map((it) => propertyLabel(it.property)))];
  if (judgement.outages.length > 0) kinds.push('availability');
  const broken = assumptionLines(judgement);
  const assumed = broken.length === 0 ? 'all assumptions of the lock kept' : `broken assumption: ${formatList(broken)}`;
  return {
    verdict: kinds.length > 0 ? 'bad' : 'good',
    title: kinds.length > 0 ? kinds.join(', ') : 'safe',
    sentences: [
      ...(all.length === 0 ? ['Nothing was violated.'] : sentences),
      ...(all.length > MOST_SENTENCES ? [`… and ${all.length - MOST_SENTENCES} more.`] : []),
    ],
    config: `${configLine(schedule, lock)} · ${assumed}`,
    answers: answersOf(violations[0], judgement.outages[0], telling),
  };
}
