import type { Advice } from '../advise/advice.js';
import { assumptionsOf } from '../advise/assumptions.js';
import type { Change } from '../advise/changes.js';
import type { HazardId } from '../advise/hazards.js';
import { type Lines, shellWords } from '../advise/lines.js';
import {
  allLinesOf,
  alternativeWords,
  costsOf,
  figureName,
  hazardWords,
  isNeeded,
  leftOutBy,
  linesOfAlternative,
  notCovered,
  rolloutOf,
  searchWords,
  stepsOf,
  subjectOf,
  time,
  valueIn,
  valueWords,
  verdictWords,
  waysOut,
} from '../advise/words.js';
import { type BoundDistance, type Fact, type PassReport, type PassSection, passPage } from '../report/pass/index.js';
import { formatPercent } from '../text/format.js';
import { shellCommand } from '../text/shell.js';
import type { WrittenAdvice, WrittenFigure } from './advise-witness.js';
import type { Io } from './io.js';

/** The page of an advice: one file, for those who have to show it to somebody. */
export function advicePage(advice: Advice, written: WrittenAdvice, file: string | null, io: Io): string {
  return passPage(reportOf(advice, written, file, io));
}

function reportOf(advice: Advice, written: WrittenAdvice, file: string | null, io: Io): PassReport {
  const { system, advised, verdict, alternatives } = advice;
  return {
    subject: subjectOf(system),
    verdict: verdictWords(advice),
    tone: verdict === 'safe' ? 'good' : 'bad',
    sentence: sentenceOf(advice),
    bounds: written.figures.filter(({ figure }) => isNeeded(figure, advice)).map((it) => distanceOf(it, advice)),
    map: null,
    sections: [...changeSections(advice, written, shellCommand(io.command, 'advise')), ...tradeoffSections(advice)],
    tried: [
      {
        name: 'the worst at once',
        text: 'drift, steps, stops and losses of the description, with a rival that strikes as soon as a quorum is free',
      },
      {
        name: 'histories inside',
        text: searchWords(advice) ?? 'none',
      },
      ...written.figures.map((it) => evidenceOf(it, advice)),
    ],
    notTried: notCovered(advice).map((text, i) => ({ name: i === 0 ? 'beyond the description' : 'the client', text })),
    nearMisses: [],
    changes: [],
    lines: [
      ...allLinesOf(advice).map((it) => linesOnPage(it, '')),
      ...alternatives.flatMap((it) =>
        linesOfAlternative(advice, it).map((file) =>
          linesOnPage(
            file,
            `${[alternativeWords(advice, it), ...leftOutBy(advice, it).map((other) => `no lines for ${other.file}`)].join('; ')}.`,
          ),
        ),
      ),
    ],
    configuration: assumptionsOf(advised).map(
      ({ field, says, isDefault }): Fact => ({
        name: field,
        text: isDefault ? `${says} (assumed, since nobody said otherwise)` : says,
      }),
    ),
    meaning: [
      ...waysOut(advice),
      ...costsOf(advice),
      'Each figure is the least that is safe in the worst that the description allows, found with runs of the lock and equal to its closed formula. It says nothing of what the description leaves out.',
    ],
    commands: [
      ...(file === null ? [] : [{ title: 'work it out again', command: shellCommand(io.command, 'advise', file) }]),
      ...written.figures.flatMap(({ figure, violated }) =>
        violated?.replay
          ? [{ title: `${figureName(figure.of, advice.advised)}, one step too little`, command: violated.replay }]
          : [],
      ),
    ],
  };
}

/** Which hazard a change is made against. */
const FEARS: Readonly<Record<Change['id'] | 'clocks', HazardId>> = {
  clocks: 'clocks',
  slew: 'clocks',
  allowance: 'clocks',
  'own-tokens': 'client',
  ttl: 'writes',
  fsync: 'memory',
  'restart-delay': 'memory',
  'no-eviction': 'memory',
  'no-promotion': 'memory',
  guard: 'writes',
  fencing: 'writes',
};

/** The changes, each with what it is made against and a run that shows that. */
function changeSections(advice: Advice, { failing }: WrittenAdvice, command: string): PassSection[] {
  const { changes, alternatives, system } = advice;
  if (changes.length === 0) return [];
  const facts = stepsOf(advice).map(({ title, id }, i): Fact => {
    const against = failing.find(({ hazard }) => hazard.id === FEARS[id]);
    const others = alternatives
      .filter(({ insteadOf }) => insteadOf === id)
      .map(({ change }) => ` Or: ${change.title}.`);
    const why = against === undefined ? '' : ` Without it: ${hazardWords(against.hazard, system)}.`;
    const shown = against?.run?.replay ? ` Shown by: ${against.run.replay}` : '';
    return { name: `change ${i + 1}`, text: `${title}.${others.join('')}${why}${shown}` };
  });
  const rollout = rolloutOf(advice, command).map((text, i): Fact => ({ name: i === 0 ? 'order' : 'check', text }));
  return [{ kind: 'facts', title: 'What to change', facts: [...facts, ...rollout] }];
}

function linesOnPage({ file, lines, first, command }: Lines, why: string): PassReport['lines'][number] {
  const before = first === undefined ? '' : ` First, in a shell: ${first}.`;
  const after = command === undefined ? '' : ` And ${shellWords(command)}: ${command}`;
  return { file, why: `${why}${before}${after}`.trim(), lines };
}

function sentenceOf({ verdict, hazards, remaining, system, advised }: Advice): string {
  const failing = hazards.filter(({ holds }) => !holds).map((it) => hazardWords(it, system));
  if (verdict === 'safe')
    return 'Nothing that the description expects lets two clients hold the lock, or a write come too late.';
  if (verdict === 'safe-if') return `As it is: ${failing.join('; ')}. With the changes below none of that does harm.`;
  return `${remaining.map((it) => hazardWords(it, advised)).join('; ')}. No setting of this client and these nodes prevents that.`;
}

function distanceOf({ figure }: WrittenFigure, advice: Advice): BoundDistance {
  const now = valueIn(advice.system, figure.of);
  return {
    name: figureName(figure.of, advice.advised),
    yours: now === null ? 'not set' : valueWords(figure.of, now),
    bound: valueWords(figure.of, figure.least),
    direction: 'at least',
    used: now === null || now === 0 ? Number.POSITIVE_INFINITY : figure.least / now,
    note: figure.of === 'guard' ? 'or a TTL into which the work and a pause fit' : '',
  };
}

function evidenceOf({ figure, safe, violated }: WrittenFigure, advice: Advice): Fact {
  const below =
    violated === null
      ? ''
      : `; violated at ${valueWords(figure.of, figure.violated?.value ?? 0)} (${violated.path ?? 'not written'})`;
  return {
    name: figureName(figure.of, advice.advised),
    text: `safe at ${valueWords(figure.of, figure.least)} (${safe.path ?? 'not written'})${below}`,
  };
}

/** What more tolerance costs: a curve of clock errors, and rows of votes. */
function tradeoffSections({ tradeoffs, voteTradeoffs, advised }: Advice): PassSection[] {
  const points = tradeoffs.map(({ driftPpm, allowanceUs, validityUs, restartDelayUs }) => ({
    x: driftPpm,
    y: validityUs,
    xText: formatPercent(driftPpm),
    yText: time(validityUs),
    note: `allowance ${time(allowanceUs)}${restartDelayUs === null ? '' : `, restart delay ${time(restartDelayUs)}`}`,
    isHere: driftPpm === advised.clocks.driftPpm,
  }));
  const votes = voteTradeoffs.map(({ votes, mayForget, mayBeDown }) => ({
    name: `${votes} votes`,
    text: `${mayForget} nodes may forget, ${mayBeDown} may be down`,
  }));
  return [
    ...(points.length < 2
      ? []
      : [
          {
            kind: 'curve',
            title: 'What tolerance costs',
            sentence: 'Each point is the least allowance for such clocks, found as the figures above are.',
            curve: { x: 'error of the rate of clocks', y: 'validity left', points },
          } as const,
        ]),
    ...(votes.length === 0 ? [] : [{ kind: 'facts', title: 'Votes to wait for', facts: votes } as const]),
  ];
}
