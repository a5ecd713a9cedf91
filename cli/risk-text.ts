import { CAUSE_KEYS } from '../advise/risk/rates.js';
import { TYPICAL } from '../advise/risk/typical.js';
import { ANSI, PLAIN } from '../report/index.js';
import { wrap } from '../text/format.js';
import { hasColour, type Io, widthOf } from './io.js';
import type { RiskAnswer } from './risk-answer.js';
import { assumptionsOf, CAUSE_WORDS, rateWords } from './risk-assumptions.js';
import { causeWords, intervalWords, methodWords, sentence, share } from './risk-words.js';
import { textTable } from './text-table.js';

const LABEL = 18;

/** An answer as text: assumptions, figure, causes, changes, method. */
export function riskText(answers: readonly RiskAnswer[], io: Io): string {
  return answers.map((it) => `${answerLines(it, io).join('\n')}\n`).join('\n');
}

function answerLines(answer: RiskAnswer, io: Io): string[] {
  const { estimate, changes, examples, end, system } = answer;
  const width = widthOf(io);
  const paint = hasColour(io) ? ANSI : PLAIN;
  const title = (text: string): string[] => ['', paint.strong(text)];
  const ends = end === null ? '' : `, with the ${end} end of what is published`;
  return [
    paint.strong(`Risk of ${system.name}${ends}`),
    ...title('Assumptions'),
    ...assumptionsOf(answer).flatMap(({ about, says }) => labelled(about, says, width)),
    ...title('Violations to be expected a year'),
    ...wrap(sentence(estimate.perYear), width - 2).map((it) => `  ${paint.strong(it)}`),
    ...kindLines(answer, width),
    ...(estimate.interrupted ? ['  Interrupted: not all runs were made, and the interval is wider for it.'] : []),
    ...(examples.length === 0
      ? []
      : [
          ...title('By cause'),
          indented(
            textTable(
              ['cause', 'a year', '95 % interval', 'share'],
              examples.map(({ cause: { causes, perYear } }) => [
                causeWords(causes),
                rateWords(perYear.value),
                intervalWords(perYear),
                share(perYear.value, estimate.perYear.value),
              ]),
              1,
              width - 2,
            ),
          ),
          ...examples.flatMap(({ cause, replay }) =>
            replay === null ? [] : labelled(causeWords(cause.causes), replay, width, 2 * LABEL - 2),
          ),
        ]),
    ...(changes.length === 0 ? [] : [...title('With one change each'), ...changeLines(answer, width)]),
    ...title('Method'),
    ...methodWords(answer).flatMap((it) => wrap(it, width - 2).map((line) => `  ${line}`)),
  ];
}

function labelled(label: string, text: string, width: number, column: number = LABEL): string[] {
  const lines = wrap(text, Math.max(20, width - column - 2));
  return lines.map((line, i) => `  ${(i === 0 ? label : '').padEnd(column)}${line}`);
}

function indented(text: string): string {
  return text.replace(/^/gm, '  ');
}

function kindLines({ estimate, model }: RiskAnswer, width: number): string[] {
  const { overlap, late, disordered } = estimate;
  return [
    ...labelled(
      'two holders',
      `${rateWords(overlap.value)} (${intervalWords(overlap)}) holds that another client believed to have, too`,
      width,
    ),
    ...(model.writes && !model.fenced
      ? labelled(
          'late writes',
          `${rateWords(late.value)} (${intervalWords(late)}) writes that arrived after their lock was over`,
          width,
        )
      : []),
    ...(model.fenced
      ? labelled(
          'tokens',
          `${rateWords(disordered.value)} (${intervalWords(disordered)}) holds with fencing tokens out of order`,
          width,
        )
      : []),
  ];
}

function changeLines({ changes, estimate }: RiskAnswer, width: number): string[] {
  const sorted = [...changes].sort((a, b) => a.estimate.perYear.value - b.estimate.perYear.value);
  const table = textTable(
    ['change', 'a year', '95 % interval', 'of now'],
    [
      ['none: as it is', rateWords(estimate.perYear.value), intervalWords(estimate.perYear), '100 %'],
      ...sorted.map(({ mitigation, estimate: { perYear } }, i) => [
        `${i + 1} ${mitigation.title}`,
        perYear.value === 0 ? 'none seen' : rateWords(perYear.value),
        intervalWords(perYear),
        share(perYear.value, estimate.perYear.value),
      ]),
    ],
    1,
    width - 2,
  );
  return [
    indented(table),
    '',
    ...sorted.flatMap(({ mitigation: { lines } }, i) =>
      lines.flatMap(({ file, lines: own, command }) => [
        `  ${i + 1} ${file}`,
        ...own.map((line) => `      ${line}`),
        ...(command === undefined ? [] : [`    then, in a shell: ${command}`]),
      ]),
    ),
  ];
}

/** Published rates as text. */
export function typicalText(io: Io): string {
  const width = widthOf(io);
  const lines = TYPICAL.flatMap(({ cause, perYear, size, source }) => [
    '',
    `${CAUSE_KEYS[cause]}: ${perYear === null ? 'how often is not published' : `${rateWords(perYear[0])} to ${rateWords(perYear[1])} a year for ${CAUSE_WORDS[cause][1]}`}, ${size}`,
    ...wrap(source, width - 2).map((line) => `  ${line}`),
  ]);
  const head = wrap(
    'What was published on how often things happen. Most of it is old and from elsewhere: your own logs are better. A description may say "typical" in place of a rate; both ends of the range are estimated then.',
    width,
  );
  return `${[...head, ...lines].join('\n')}\n`;
}
