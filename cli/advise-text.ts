import type { Advice } from '../advise/advice.js';
import {
  assumptionsOf,
  costsOf,
  figureWords,
  hazardWords,
  linesOf,
  notCovered,
  subjectOf,
  UNKNOWN_WORDS,
  verdictWords,
  waysOut,
} from '../advise/words.js';
import { ANSI, type Painter, PLAIN } from '../report/index.js';
import { formatCount, wrap } from '../text/format.js';
import { ADVICE_FOLDER, type Written, type WrittenAdvice, type WrittenHazard } from './advise-witness.js';
import { hasColour, type Io, widthOf } from './io.js';
import { textTable } from './text-table.js';

/** An advice for a terminal: what to do first, then with which evidence. Lines to paste stand at the left edge. */
export function adviceText(advice: Advice, written: WrittenAdvice, io: Io): string {
  const width = widthOf(io);
  const paint = hasColour(io) ? ANSI : PLAIN;
  return `${[
    ...headLines(advice, written, paint, width),
    ...changeLines(advice, paint, width),
    ...remainingLines(advice, written, paint, width),
    ...figureLines(written, width),
    ...evidenceLines(advice, width),
  ].join('\n')}\n`;
}

function headLines(advice: Advice, written: WrittenAdvice, paint: Painter, width: number): string[] {
  const { verdict, system } = advice;
  const word = verdictWords(advice).toUpperCase();
  const head =
    verdict === 'safe' ? paint.good(`✓ ${word}`) : paint.bad(`✗ ${verdict === 'safe-if' ? 'NOT SAFE YET' : word}`);
  const failing = written.failing.flatMap(({ hazard, run }) => hazardLines(hazardWords(hazard, system), run, width));
  return [`${head}   ${subjectOf(system)}`, ...failing];
}

function hazardLines(words: string, run: Written | null, width: number): string[] {
  const lines = wrap(words, width - 4).map((line, i) => `  ${i === 0 ? '·' : ' '} ${line}`);
  return run?.replay ? [...lines, `    ${run.replay}`] : lines;
}

function changeLines(advice: Advice, paint: Painter, width: number): string[] {
  const { changes, alternatives, verdict } = advice;
  if (changes.length === 0) return [];
  const heading =
    verdict === 'not' ? 'It gets better, but not safe, with these changes:' : 'It is safe with these changes:';
  const titles = changes.flatMap(({ title, id }, i) => [
    ...hanging(`${i + 1}. `, title, width),
    ...alternatives
      .filter(({ insteadOf }) => insteadOf === id)
      .flatMap(({ change }) => hanging('   or: ', change.title, width)),
  ]);
  const files = linesOf(advice).flatMap(({ file, lines }) => [paint.strong(`# ${file}`), ...lines]);
  return ['', heading, ...titles, '', ...files];
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

function figureLines({ figures }: WrittenAdvice, width: number): string[] {
  if (figures.length === 0) return [];
  const rows = figures.map(({ figure }) => {
    const { least, below } = figureWords(figure);
    return [UNKNOWN_WORDS[figure.of], least, below];
  });
  const shown = figures.find(({ violated }) => violated !== null)?.violated?.replay ?? null;
  const all = `${ADVICE_FOLDER}/{${figures.map(({ figure }) => figure.of).join(',')}}-{safe,violated}.json`;
  return [
    '',
    textTable(['least that is safe', '', 'violated at'], rows, 1),
    ...(shown === null ? [] : wrap(`shown by ${shown}; both sides of each: ${all}`, width)),
  ];
}

function evidenceLines(advice: Advice, width: number): string[] {
  const { search, advised } = advice;
  const found =
    search.counterexample === null ? 'in none two clients held the lock' : 'in one two clients held the lock';
  const sentences = [
    `Assumed: ${assumptionsOf(advised).join('; ')}.`,
    ...costsOf(advice),
    ...notCovered(advised),
    ...(search.runs > 0 ? [`Searched ${formatCount(search.runs)} histories with the changes in place: ${found}.`] : []),
  ];
  return ['', ...sentences.flatMap((it) => wrap(it, width))];
}
