import { judgeAsExpected, reproduces } from '../properties/expectation.js';
import { loadCatalogue } from '../scenarios/catalogue.js';
import type { Expectation, Scenario, Schedule, Verdict } from '../scenarios/index.js';
import { variantSchedule } from '../scenarios/variant.js';
import { plural } from '../text/format.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { ReplayFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { reporterOf } from './reporters/option.js';
import { type Case, isAlone } from './reporters/outcome.js';
import { tellSuite } from './reporters/tell.js';
import { textTable } from './text-table.js';

/** What came of one schedule of a scenario. */
interface Outcome {
  readonly expected: Verdict;
  readonly verdict: Verdict;
  readonly reproduced: boolean;
  /** What differs, in one sentence. */
  readonly difference: string | null;
}

/** What came of a scenario: its own schedule, and those of its variants. */
export interface ScenarioOutcome extends Outcome {
  readonly id: string;
  readonly title: string;
  readonly variants: readonly (Outcome & { readonly kind: 'flip' | 'neighbour'; readonly title: string })[];
}

/** Runs a scenario and its variants; it is reproduced if all of them give what they should. */
export function replayScenario(scenario: Scenario): ScenarioOutcome {
  const own = outcomeOf(scenario.schedule, scenario.expect);
  const variants = (['flip', 'neighbour'] as const).flatMap((kind) =>
    (kind === 'flip' ? scenario.flips : scenario.neighbours).map((variant) => ({
      kind,
      title: variant.title,
      ...outcomeOf(variantSchedule(scenario, variant), variant.expect),
    })),
  );
  const reproduced = own.reproduced && variants.every((variant) => variant.reproduced);
  return { id: scenario.id, title: scenario.title, ...own, reproduced, variants };
}

function outcomeOf(schedule: Schedule, expectation: Expectation): Outcome {
  const judgement = judgeAsExpected(schedule, expectation);
  const difference = reproduces(expectation, judgement);
  return { expected: expectation.verdict, verdict: judgement.verdict, reproduced: difference === null, difference };
}

/** Runs the whole catalogue. */
export function replayAll(flags: Pick<ReplayFlags, 'json' | 'reporter'>, io: Io): ExitCode {
  const reporter = reporterOf(flags);
  const began = performance.now();
  const scenarios = loadCatalogue().map(replayScenario);
  const reproduced = scenarios.filter((scenario) => scenario.reproduced).length;
  const total = scenarios.length;
  if (reporter === 'json') writeJson(io, 'lockstep.replay-all/1', { scenarios, reproduced, total });
  if (!isAlone(reporter)) io.stdout.write(allText(scenarios, reproduced));
  tellSuite(
    reporter,
    {
      name: 'lockstep replay --all',
      cases: scenarios.map(caseOf),
      seconds: (performance.now() - began) / 1000,
      summary: summaryOf(scenarios, reproduced),
    },
    io,
  );
  return reproduced === total ? Exit.ok : Exit.notReproduced;
}

function caseOf(it: ScenarioOutcome): Case {
  const name = `${it.id} ${it.title}`;
  const [first, ...more] = differencesOf(it);
  if (first === undefined) return { name, result: 'passed' };
  return { name, result: 'failed', message: first, text: [first, ...more].join('\n') };
}

function differencesOf(it: ScenarioOutcome): string[] {
  return [
    ...(it.difference === null ? [] : [`${it.id}: ${it.difference}`]),
    ...it.variants.flatMap((variant) =>
      variant.difference === null ? [] : [`${it.id}, ${variant.kind} "${variant.title}": ${variant.difference}`],
    ),
  ];
}

function summaryOf(scenarios: readonly ScenarioOutcome[], reproduced: number): string {
  const variants = scenarios.reduce((sum, it) => sum + it.variants.length, 0);
  return `${reproduced} of ${plural(scenarios.length, 'scenario')} reproduced, with ${plural(variants, 'variant')}`;
}

function allText(scenarios: readonly ScenarioOutcome[], reproduced: number): string {
  const table = textTable(
    ['id', 'expected', 'verdict', 'variants', ''],
    scenarios.map((it) => [
      it.id,
      it.expected,
      it.verdict,
      `${it.variants.filter((variant) => variant.reproduced).length}/${it.variants.length}`,
      it.reproduced ? '✓' : '✗',
    ]),
  );
  return `${[table, ...scenarios.flatMap(differencesOf), '', summaryOf(scenarios, reproduced)].join('\n')}\n`;
}
