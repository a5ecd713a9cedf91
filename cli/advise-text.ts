import type { Advice } from '../advise/advice.js';
import { type Assumption, assumptionsOf } from '../advise/assumptions.js';
import { type Lines, shellWords } from '../advise/lines.js';
import {
  allLinesOf,
  alternativeWords,
  conditionOf,
  costsOf,
  figureName,
  figureWords,
  hazardWords,
  leftOutBy,
  linesOfAlternative,
  notCovered,
  rolloutOf,
  searchWords,
  stepsOf,
  subjectOf,
  waysOut,
} from '../advise/words.js';
import { ANSI, type Painter, PLAIN } from '../report/index.js';
import { wrap } from '../text/format.js';
import { shellCommand } from '../text/shell.js';
import { ADVICE_FOLDER, type Written, type WrittenAdvice, type WrittenHazard } from './advise-witness.js';
import { hasColour, type Io, widthOf } from './io.js';
import { textTable } from './text-table.js';

/** An advice for a terminal: what to do first, then with which evidence. Lines to paste stand at the left edge. */
export function adviceText(advice: Advice, written: WrittenAdvice, withAlternatives: boolean, io: Io): string {
  const width = widthOf(io);
  const paint = hasColour(io) ? ANSI : PLAIN;
  return `${[
    ...headLines(advice, written, paint, width),
    ...changeLines(advice, paint, width, shellCommand(io.command, 'advise')),
    ...remainingLines(advice, written, paint, width),
    ...defaultLines(advice, paint, width),
    ...figureLines(advice, written, width),
    ...describedLines(advice, width),
    ...evidenceLines(advice, width),
    ...(withAlternatives ? alternativeLines(advice, paint, width) : []),
  ].join('\n')}\n`;
}

function headLines(advice: Advice, written: WrittenAdvice, paint: Painter, width: number): string[] {
  const { verdict, system } = advice;
  const condition = conditionOf(advice);
  const head =
    verdict === 'safe'
      ? paint.good(`✓ SAFE${condition === null ? '' : `, ${condition}`}`)
      : paint.bad(verdict === 'safe-if' ? '✗ NOT SAFE YET' : '✗ NOT SAFE');
  const failing = written.failing.flatMap(({ hazard, run }) => hazardLines(hazardWords(hazard, system), run, width));
  return [`${head}   ${subjectOf(system)}`, ...failing];
}

function hazardLines(words: string, run: Written | null, width: number): string[] {
  const lines = wrap(words, width - 4).map((line, i) => `  ${i === 0 ? '·' : ' '} ${line}`);
  return run?.replay ? [...lines, `    ${run.replay}`] : lines;
}

function changeLines(advice: Advice, paint: Painter, width: number, command: string): string[] {
  const { changes, alternatives, verdict } = advice;
  const files = allLinesOf(advice).flatMap((it) => fileLines(it, paint));
  const steps = stepsOf(advice);
  if (changes.length === 0)
    return steps.length === 0
      ? []
      : ['', ...steps.flatMap(({ title }) => wrap(`This rests on clocks: ${title}.`, width)), ...files];
  const condition = conditionOf(advice);
  const heading =
    verdict === 'not'
      ? 'It gets better, but not safe, with these changes:'
      : `It is safe with these changes${condition === null ? '' : `, ${condition}`}:`;
  const titles = steps.flatMap(({ title, id }, i) => [
    ...hanging(`${i + 1}. `, title, width),
    ...alternatives
      .filter(({ insteadOf }) => insteadOf === id)
      .flatMap(({ change }) => hanging('   or: ', change.title, width)),
  ]);
  const others = alternatives.length === 0 ? [] : ['   (--alternatives prints the lines of each "or")'];
  const rollout = rolloutOf(advice, command).flatMap((it) => wrap(it, width));
  return ['', ...wrap(heading, width), ...titles, ...others, ...rollout, '', ...files];
}

function fileLines({ file, lines, first, command }: Lines, paint: Painter): string[] {
  return [
    ...(first === undefined ? [] : [paint.strong('# in a shell'), first]),
    paint.strong(`# ${file}`),
    ...lines,
    ...(command === undefined ? [] : [paint.strong(`# ${shellWords(command)}`), command]),
  ];
}

/** The lines of what would do in place of a change: they stand last, so that nobody pastes both. */
function alternativeLines(advice: Advice, paint: Painter, width: number): string[] {
  return advice.alternatives.flatMap((it) => {
    const lines = linesOfAlternative(advice, it);
    const files = lines.length > 1 ? ', and then these files are otherwise, too' : '';
    return [
      '',
      ...wrap(`${alternativeWords(advice, it)}${files}:`, width),
      ...lines.flatMap((file) => fileLines(file, paint)),
      ...leftOutBy(advice, it).map(({ file }) => paint.strong(`# and no lines for: ${file}`)),
    ];
  });
}

function hanging(first: string, text: string, width: number): string[] {
  return wrap(text, width - first.length).map((line, i) => `${i === 0 ? first : ' '.repeat(first.length)}${line}`);
}

function remainingLines(advice: Advice, written: WrittenAdvice, paint: Painter, width: number): string[] {
  if (written.remaining.length === 0) return [];
  const lines = written.remaining.flatMap(({ hazard, run }: WrittenHazard) =>
    hazardLines(hazardWords(hazard, advice.advised), run, width),
  );
  const out = waysOut(advice).flatMap((it) => wrap(it, width));
  return ['', paint.bad('What no setting of this client and these nodes prevents:'), ...lines, ...out];
}

function figureLines(advice: Advice, { figures }: WrittenAdvice, width: number): string[] {
  const { changes } = advice;
  if (figures.length === 0) return [];
  const rows = figures.map(({ figure }) => {
    const { least, below, inPlace } = figureWords(figure, advice);
    return [figureName(figure.of, advice.advised), least, below, inPlace];
  });
  const shown = figures.find(({ violated }) => violated !== null)?.violated?.replay ?? null;
  const all = `${ADVICE_FOLDER}/{${figures.map(({ figure }) => figure.of).join(',')}}-{safe,violated}.json`;
  return [
    '',
    textTable(['', 'least that is safe', 'violated at', changes.length === 0 ? 'yours' : 'as advised'], rows, 1),
    ...wrap(
      `Each is worked out by itself, with all else ${changes.length === 0 ? 'as it is' : 'as advised'}: to change one, ask again with it.`,
      width,
    ),
    ...(shown === null ? [] : wrap(`Shown by ${shown}; both sides of each: ${all}`, width)),
  ];
}

/** What nobody has said stands out. */
function defaultLines({ advised }: Advice, paint: Painter, width: number): string[] {
  const rows = assumptionsOf(advised).filter(({ isDefault }) => isDefault);
  if (rows.length === 0) return [];
  const heading = paint.bad('! Assumed, since nobody said otherwise. Check each: what is otherwise may be worse.');
  return ['', heading, ...rows.flatMap((it) => assumptionLines(it, width))];
}

function describedLines({ advised }: Advice, width: number): string[] {
  const rows = assumptionsOf(advised).filter(({ isDefault }) => !isDefault);
  const heading = 'Also assumed: what was said, or else the worst. Each flag changes what stands behind it.';
  return ['', heading, ...rows.flatMap((it) => assumptionLines(it, width))];
}

function assumptionLines({ field, says }: Assumption, width: number): string[] {
  return hanging(`  ${field.padEnd(LABEL)}`, says, width);
}

const LABEL = 17;

function evidenceLines(advice: Advice, width: number): string[] {
  const sentences = [...costsOf(advice), ...notCovered(advice), ...[searchWords(advice)].flatMap((it) => it ?? [])];
  return ['', ...sentences.flatMap((it) => wrap(it, width))];
}
