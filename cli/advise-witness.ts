import type { Advice } from '../advise/advice.js';
import { figuresOf } from '../advise/advice.js';
import type { Figure, Witness } from '../advise/figures.js';
import { type Hazard, named } from '../advise/hazards.js';
import { hazardWords, subjectOf, UNKNOWN_WORDS, valueWords } from '../advise/words.js';
import { judge } from '../properties/judge.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { expectedOf, replayCommand, writeScenario } from './failure-file.js';
import type { Io } from './io.js';

/** Where runs that show an advice go, below the working directory. */
export const ADVICE_FOLDER = '.lockstep/advise';

/** A run that was written down. */
export interface Written {
  /** `null` where it could not be written, which has been said. */
  readonly path: string | null;
  readonly replay: string | null;
}

/** A figure with its two runs. */
export interface WrittenFigure {
  readonly figure: Figure;
  readonly safe: Written;
  readonly violated: Written | null;
}

/** Something that fails, with the run that shows it. */
export interface WrittenHazard {
  readonly hazard: Hazard;
  readonly run: Written | null;
}

/** All runs of an advice. */
export interface WrittenAdvice {
  readonly figures: readonly WrittenFigure[];
  readonly failing: readonly WrittenHazard[];
  readonly remaining: readonly WrittenHazard[];
}

/** Writes the runs of an advice as scenarios, each with the verdict that it gives again. */
export function writeAdvice(advice: Advice, io: Io): WrittenAdvice {
  const hazard = (it: Hazard, when: string): WrittenHazard => ({
    hazard: it,
    run:
      it.schedule === null || it.breaks === null
        ? null
        : write(
            `${it.id}-${when}`,
            {
              title: `${subjectOf(advice.system)}: ${hazardWords(it, advice.system)}`,
              story: it.id === 'client' ? LATE : storyOf(it.breaks),
            },
            it.schedule,
            it.breaks,
            io,
          ),
  });
  return {
    figures: figuresOf(advice.figures).map((figure) => writeFigure(figure, advice, io)),
    failing: advice.hazards.filter(({ holds }) => !holds).map((it) => hazard(it, 'now')),
    remaining: advice.remaining.map((it) => hazard(it, 'after')),
  };
}

function writeFigure(figure: Figure, advice: Advice, io: Io): WrittenFigure {
  const side = ({ value, schedule }: Witness, verdict: string): Written => {
    const title = `${UNKNOWN_WORDS[figure.of]} ${valueWords(figure.of, value)}: ${verdict}`;
    const words = { title, story: storyOf(figure.breaks) };
    return write(`${figure.of}-${verdict}`, words, named(advice.advised, schedule), figure.breaks, io);
  };
  return {
    figure,
    safe: side(figure.safe, 'safe'),
    violated: figure.violated === null ? null : side(figure.violated, 'violated'),
  };
}

const LATE =
  'A release of the first try comes after the second try has set its keys, over a connection that does not keep the order. How late it is follows from the time-outs of the client, and may be more than the description says of the network.';

/** What a run takes from the description of the system. */
function storyOf(property: PropertyId): string {
  return property === 'action-in-belief'
    ? 'The work, the pauses and the way of the last write are as long as the description of the system allows; nothing else goes wrong.'
    : 'The worst that the description of the system allows, all at once, and a rival that strikes as soon as it can.';
}

interface Words {
  readonly title: string;
  readonly story: string;
}

function write(id: string, words: Words, schedule: Schedule, property: PropertyId, io: Io): Written {
  const judgement = judge(schedule, [property], true);
  const path = writeScenario(
    {
      schema: 'lockstep.scenario/1',
      id,
      ...words,
      source: 'worked out by lockstep advise',
      schedule,
      expect: expectedOf(judgement, property),
      flips: [],
      neighbours: [],
    },
    ADVICE_FOLDER,
    io,
  );
  return { path, replay: path === null ? null : replayCommand(io, path) };
}
