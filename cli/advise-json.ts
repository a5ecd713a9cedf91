import type { Advice } from '../advise/advice.js';
import { assumptionsOf } from '../advise/assumptions.js';
import type { Change } from '../advise/changes.js';
import { agrees } from '../advise/figures.js';
import {
  clockLinesOf,
  conditionOf,
  costsOf,
  hazardWords,
  leftOutBy,
  linesOf,
  linesOfAlternative,
  notCovered,
  subjectOf,
  valueIn,
  waysOut,
} from '../advise/words.js';
import type { Written, WrittenAdvice, WrittenHazard } from './advise-witness.js';
import type { Regressions } from './regressions.js';

const NO_FILE: Written = { path: null, replay: null };

/** An advice for programs; its form is in `output-grammar.ts`. */
export function adviseJson(advice: Advice, written: WrittenAdvice, known: Regressions): object {
  const { system, advised, search } = advice;
  const hazards = (some: readonly WrittenHazard[]): object[] =>
    some.map(({ hazard, run }) => ({
      id: hazard.id,
      says: hazardWords(hazard, system),
      property: hazard.breaks,
      ...fileOf(run),
    }));
  return {
    verdict: advice.verdict,
    subject: subjectOf(system),
    hazards: hazards(written.failing),
    remaining: hazards(written.remaining),
    changes: advice.changes.map(changeOf),
    alternatives: advice.alternatives.map((it) => ({
      insteadOf: it.insteadOf,
      ...changeOf(it.change),
      lines: linesOfAlternative(advice, it),
      without: leftOutBy(advice, it).map(({ file }) => file),
    })),
    lines: linesOf(advice),
    clocks: clockLinesOf(advice)?.lines ?? [],
    figures: written.figures.map(({ figure, safe, violated }) => ({
      of: figure.of,
      unit: figure.of === 'votes' ? 'votes' : 'µs',
      least: figure.least,
      advised: valueIn(advised, figure.of),
      computed: figure.computed,
      agrees: agrees(figure),
      breaks: figure.breaks,
      safe: { value: figure.safe.value, ...fileOf(safe) },
      violated: figure.violated === null ? null : { value: figure.violated.value, ...fileOf(violated) },
    })),
    tradeoffs: advice.tradeoffs,
    voteTradeoffs: advice.voteTradeoffs,
    assumptions: assumptionsOf(advised).map(({ field, says, isDefault }) => ({ field, says, default: isDefault })),
    condition: conditionOf(advice),
    notCovered: [...waysOut(advice), ...costsOf(advice), ...notCovered(advice)],
    search: { verdict: search.verdict, runs: search.runs, events: search.events, seed: search.seed, hash: search.hash },
    known: known.failures.map(({ path, committed, stillFails }) => ({ path, committed, stillFails })),
  };
}

function changeOf({ id, title, lines }: Change): object {
  return { id, title, lines };
}

function fileOf(run: Written | null): object {
  const { path, replay } = run ?? NO_FILE;
  return { schedule: path, replay };
}
