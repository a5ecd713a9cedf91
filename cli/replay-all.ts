import { judgeAsExpected, reproduces } from '../properties/expectation.js';
import { plural } from '../report/index.js';
import { loadCatalogue } from '../scenarios/catalogue.js';
import { type Expectation, type Scenario, type Schedule, type Verdict, variantSchedule } from '../scenarios/index.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { ReplayFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
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
export function replayAll(flags: Pick<ReplayFlags, 'json'>, io: Io): ExitCode {
  const scenarios = loadCatalogue().map(replayScenario);
  const reproduced = scenarios.filter((scenario) => scenario.reproduced).length;
  const total = scenarios.length;
  if (flags.json) writeJson(io, 'lockstep.replay-all/1', { scenarios, reproduced, total });
  else io.stdout.write(allText(scenarios, reproduced));
  return reproduced === total ? Exit.ok : Exit.notReproduced;
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
  const differences = scenarios.flatMap((it) => [
    ...(it.difference === null ? [] : [`${it.id}: ${it.difference}`]),
    ...it.variants.flatMap((variant) =>
      variant.difference === null ? [] : [`${it.id}, ${variant.kind} "${variant.title}": ${variant.difference}`],
    ),
  ]);
  const variants = scenarios.reduce((sum, it) => sum + it.variants.length, 0);
  const summary = `${reproduced} of ${plural(scenarios.length, 'scenario')} reproduced, with ${plural(variants, 'variant')}`;
  return `${[table, ...differences, '', summary].join('\n')}\n`;
}
