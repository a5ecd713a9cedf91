import type { Interval } from '../advise/risk/interval.js';
import { CAUSE_KEYS } from '../advise/risk/rates.js';
import { TYPICAL } from '../advise/risk/typical.js';
import { ANSI, PLAIN } from '../report/index.js';
import { formatCount, plural, wrap } from '../text/format.js';
import { hasColour, type Io, widthOf } from './io.js';
import type { RiskAnswer } from './risk-answer.js';
import { assumptionsOf, CAUSE_WORDS, rateWords } from './risk-assumptions.js';
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

/** `3.1e-4 (95 %: 2.9e-4 to 3.4e-4): one in about 3 200 years.` */
function sentence(interval: Interval): string {
  const { value, high } = interval;
  if (value === 0) return `none was seen; with 95 % confidence fewer than ${rateWords(high)}`;
  const every = value < 1 ? `: one in about ${rateWords(1 / value)} years` : '';
  return `${rateWords(value)}, 95 % interval ${intervalWords(interval)}${every}`;
}

function intervalWords({ low, high }: Interval): string {
  return `${rateWords(low)} to ${rateWords(high)}`;
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

function causeWords(causes: RiskAnswer['estimate']['causes'][number]['causes']): string {
  if (causes.length === 0) return 'no event at all';
  return causes.map((it) => CAUSE_WORDS[it][0]).join(' and ');
}

function share(value: number, all: number): string {
  const percent = (100 * value) / all;
  return percent > 0 && percent < 0.1 ? '< 0.1 %' : `${percent.toFixed(1)} %`;
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

function methodWords({ estimate: { method }, seed, model }: RiskAnswer): string[] {
  const { runs, pilotRuns, hits, measured, inside, insideRuns, restPerYear, halves } = method;
  return [
    `The holds of a year are sorted by what happens to them: how many there are of each sort follows from the rates, and which share of each is violated is measured with runs of the engine that draw the rest (importance sampling by conditioning on the events, allocated by Neyman's rule).`,
    `${plural(measured, 'sort')} measured with ${formatCount(runs)} runs, ${plural(hits, 'violation')}, after a pilot of ${formatCount(pilotRuns)} runs that does not count; seed ${seed}. ${plural(inside, 'sort')} of holds keep all that the lock assumes even at the worst draw: they count as safe, and ${formatCount(insideRuns)} runs saw no violation there (lockstep check --policy ${model.policy.profile} looks for one).`,
    `Interval: Wilson's for each share, joined as squares (MOVER), plus ${rateWords(restPerYear)} holds a year with so many rare events that they were not looked at, counted as violated. It is about chance in these runs; that the assumptions are right, it does not say.`,
    `Self-check: the two halves of the runs differ by ${Math.abs(halves).toFixed(1)} standard deviations${Math.abs(halves) > 3 ? ', which is too much: do not trust this figure' : ''}; each example above was run again and is violated.`,
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
