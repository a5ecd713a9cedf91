import type { Fate, PropertyId, PropertyKind, Schedule, Verdict } from '../scenarios/index.js';
import { type Run, runOf, ScriptedAdversary, setupOf, World } from '../sim/index.js';
import { type Assumption, assumptions } from './assumptions.js';
import { noCounts } from './coverage.js';
import { Monitors } from './monitors/monitors.js';
import type { Outage } from './monitors/outage.js';
import { LIVENESS, SAFETY } from './property-lists.js';
import type { Violation } from './violation.js';

/** What monitors say of the properties of one kind. */
export type KindVerdict = 'safe' | 'violated' | 'unchecked';

/** A run with what the monitors say about it. */
export interface Judgement {
  readonly run: Run;
  readonly violations: readonly Violation[];
  readonly outages: readonly Outage[];
  readonly verdicts: Readonly<Record<PropertyKind, KindVerdict>>;
  /** The one word, about the properties asked for. */
  readonly verdict: Verdict;
  /** Assumptions of the theory that the schedule does not keep. */
  readonly assumptionsBroken: readonly Assumption[];
  /** Fates of the schedule that matched no message; left out of runs of other clients, where nobody looks at that. */
  readonly unusedFates?: readonly Fate[];
}

/** Told of in every judgement, asked for or not: the danger comes before the harm. */
const TOLD: readonly PropertyId[] = [...SAFETY, 'quorum-backed'];

/**
 * Runs a schedule and says what held. `also` names further properties that count in the one-word verdict; of what is
 * not among them and nobody asks for by default, nothing is said. `watch` is shown the world before it runs.
 */
export function judge(
  schedule: Schedule,
  also: readonly PropertyId[] = [],
  trace = false,
  watch: (world: World) => void = () => {},
): Judgement {
  const setup = setupOf(schedule);
  const monitors = new Monitors(setup, noCounts(), true);
  const adversary = new ScriptedAdversary(schedule);
  const world = new World(setup, adversary, monitors, trace);
  watch(world);
  world.run();
  const violations = monitors.violations.filter(({ property }) => TOLD.includes(property) || also.includes(property));
  const { outages } = monitors;
  const of = (kind: PropertyKind): KindVerdict => (violations.some((it) => it.kind === kind) ? 'violated' : 'safe');
  const asked = [...SAFETY, ...also];
  const violated = violations.some((it) => asked.includes(it.property));
  return {
    run: runOf(world),
    violations,
    outages,
    verdicts: {
      belief: of('belief'),
      state: of('state'),
      effect: monitors.writes > 0 ? of('effect') : 'unchecked',
      liveness: also.some((property) => LIVENESS.includes(property)) ? of('liveness') : 'unchecked',
    },
    verdict: violated ? 'violated' : outages.length > 0 ? 'unavailable' : 'safe',
    assumptionsBroken: assumptions(schedule, setup.policy, { fewestCounters: monitors.counters.fewest }),
    unusedFates: adversary.unusedFates,
  };
}
