import type { Advice } from '../advise/advice.js';
import { figuresOf } from '../advise/advice.js';
import type { Figure, Witness } from '../advise/figures.js';
import { type Hazard, named } from '../advise/hazards.js';
import { lateReleaseOf } from '../advise/late-release.js';
import type { System } from '../advise/system.js';
import { figureName, hazardWords, subjectOf, valueWords } from '../advise/words.js';
import { judge } from '../properties/judge.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { formatPercent } from '../text/format.js';
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
              story:
                it.id === 'client'
                  ? clientStory(when === 'now' ? advice.system : advice.advised)
                  : storyOf(it.breaks, it.schedule),
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
    const title = `${figureName(figure.of, advice.advised)} ${valueWords(figure.of, value)}: ${verdict}`;
    const words = { title, story: `${storyOf(figure.breaks, schedule)}${countedBy(figure, advice)}` };
    return write(`${figure.of}-${verdict}`, words, named(advice.advised, schedule), figure.breaks, io);
  };
  return {
    figure,
    safe: side(figure.safe, 'safe'),
    violated: figure.violated === null ? null : side(figure.violated, 'violated'),
  };
}

const LATE =
  'A release of the first try comes after the second try has set its keys, over a connection that does not keep the order. It is as late as the time-outs of the client ask for, which a packet that TCP sends again may be; all else is as described.';

/** What a run takes that shows what a client does wrong by itself: one that was built, or else one that was drawn. */
function clientStory(system: System): string {
  return lateReleaseOf(system) === null
    ? 'Drawn by a search in this system, and made small. Messages may be lost, late or there twice, and clients may stop or die at any time, which a lock has to withstand.'
    : LATE;
}

/** What a run takes from the description of the system. */
function storyOf(property: PropertyId, { fates }: Schedule): string {
  if (property !== 'no-stale-write')
    return 'The clock errors, crashes and restarts that the description allows, the worst of each at once. Nodes beyond the quorum answer with an error. A rival asks as soon as a quorum is free.';
  const silent = fates.filter(({ lost }) => lost === true).map(({ node }) => node);
  const silence = silent.length === 0 ? '' : `, and no answer from ${silent.join(' ')}`;
  return `The longest work, the longest stop and the slowest messages that the description allows${silence}; nothing else goes wrong.`;
}

/** A delay is counted by a clock, which is not the time of the run. */
function countedBy(figure: Figure, { system }: Advice): string {
  const ppm = system.clocks.driftPpm;
  return figure.of === 'restart-delay' && ppm > 0
    ? ` The restart delay is counted by a clock that is ${formatPercent(ppm)} fast: the run is ahead of it.`
    : '';
}

const UNAVAILABLE =
  'No two clients hold the lock at once. While so many nodes are held back nobody gets it, which is the cost of a restart delay: replay marks that as availability.';

interface Words {
  readonly title: string;
  readonly story: string;
}

function write(id: string, words: Words, schedule: Schedule, property: PropertyId, io: Io): Written {
  const judgement = judge(schedule, [property], true);
  const story = judgement.verdict === 'unavailable' ? `${words.story} ${UNAVAILABLE}` : words.story;
  const path = writeScenario(
    {
      schema: 'lockstep.scenario/1',
      id,
      title: words.title,
      story,
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
