import type { Lines } from '../advise/lines.js';
import type { Interval } from '../advise/risk/interval.js';
import { type EstimateRow, type PassReport, type PassSection, passPage } from '../report/pass/index.js';
import { shellCommand } from '../text/shell.js';
import type { Io } from './io.js';
import type { EstimatedChange, RiskAnswer } from './risk-answer.js';
import { assumptionsOf, rateWords } from './risk-assumptions.js';
import { causeWords, intervalWords, methodWords, sentence, share } from './risk-words.js';

/** An estimate as a page: one file, for those who have to decide on it. Assumptions come first. */
export function riskPage(answers: readonly RiskAnswer[], argv: readonly string[], io: Io): string {
  return passPage(reportOf(answers, argv, io));
}

function reportOf(answers: readonly RiskAnswer[], argv: readonly string[], io: Io): PassReport {
  const [first] = answers;
  return {
    subject: first?.system.name ?? '',
    verdict: 'Violations to be expected a year',
    tone: 'plain',
    sentence: 'These figures are worth as much as their assumptions, which come first.',
    bounds: [],
    map: null,
    sections: answers.flatMap(sectionsOf),
    tried: [],
    notTried: [],
    nearMisses: [],
    changes: [],
    lines: linesOf(first?.changes ?? []),
    configuration: [],
    meaning: [
      'A violation is a hold in which another client believed to have the lock too, or in which a write arrived after the lock was over, or in which fencing tokens got out of order.',
      'The figures are worth as much as the assumptions. The intervals are about chance in the runs, not about wrong rates: try half and twice of each.',
    ],
    commands: [{ title: 'estimate it again', command: shellCommand(io.command, ...argv) }],
  };
}

/** `low end: ` where published ranges are taken. */
function endOf({ end }: RiskAnswer): string {
  return end === null ? '' : `, ${end} end of what is published`;
}

function headline({ estimate: { perYear, interrupted } }: RiskAnswer): string {
  const text = sentence(perYear);
  const note = interrupted ? ' Interrupted: not all runs were made, and the interval is wider for it.' : '';
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.${note}`;
}

function sectionsOf(answer: RiskAnswer): PassSection[] {
  const { estimate, examples, changes } = answer;
  const end = endOf(answer);
  return [
    {
      kind: 'facts',
      title: `Assumptions${end}`,
      facts: assumptionsOf(answer).map(({ about, says }) => ({ name: about, text: says })),
    },
    { kind: 'estimates', title: `Violations a year${end}`, sentence: headline(answer), rows: kindRows(answer) },
    ...section(
      `By cause${end}`,
      'All causes of a row are needed for its violations. Each has a run that shows it.',
      examples.map(({ cause, replay }) => {
        const note = `${share(cause.perYear.value, estimate.perYear.value)} of all`;
        return rowOf(causeWords(cause.causes), cause.perYear, note, replay);
      }),
    ),
    ...section(
      `With one change each${end}`,
      'The same figure for the system with one change; the lines of each are below.',
      changes.length === 0
        ? []
        : [rowOf('none: as it is', estimate.perYear, '', null), ...sorted(changes).map((it) => changeRow(it, answer))],
    ),
    {
      kind: 'facts',
      title: `Method and self-checks${end}`,
      facts: methodWords(answer).map((text, i) => ({ name: METHOD[i] ?? '', text: text.replace(/^[\w-]+: /, '') })),
    },
  ];
}

const METHOD = ['how', 'runs', 'interval', 'self-check'];

function section(title: string, words: string, rows: readonly EstimateRow[]): PassSection[] {
  return rows.length === 0 ? [] : [{ kind: 'estimates', title, sentence: words, rows }];
}

function sorted(changes: readonly EstimatedChange[]): EstimatedChange[] {
  return [...changes].sort((a, b) => a.estimate.perYear.value - b.estimate.perYear.value);
}

function changeRow({ mitigation, estimate }: EstimatedChange, answer: RiskAnswer): EstimateRow {
  const note = `${share(estimate.perYear.value, answer.estimate.perYear.value)} of now`;
  return rowOf(mitigation.title, estimate.perYear, note, null);
}

function kindRows({ estimate, model }: RiskAnswer): EstimateRow[] {
  return [
    rowOf('all', estimate.perYear, '', null),
    rowOf('two holders', estimate.overlap, 'holds that another client believed to have, too', null),
    ...(model.writes && !model.fenced
      ? [rowOf('late writes', estimate.late, 'writes that arrived after their lock was over', null)]
      : []),
    ...(model.fenced ? [rowOf('tokens', estimate.disordered, 'holds with fencing tokens out of order', null)] : []),
  ];
}

function rowOf(name: string, interval: Interval, note: string, command: string | null): EstimateRow {
  const { value, low, high } = interval;
  const text =
    value === 0 ? `none seen; at most ${rateWords(high)}` : `${rateWords(value)} (${intervalWords(interval)})`;
  return { name, value, low, high, text, note, command };
}

function linesOf(changes: readonly EstimatedChange[]): PassReport['lines'] {
  return sorted(changes).flatMap(({ mitigation: { title, lines } }) =>
    lines.map(({ file, lines: own, command }: Lines) => ({
      file,
      why: `${title}.${command === undefined ? '' : ` Then, in a shell: ${command}`}`,
      lines: own,
    })),
  );
}
