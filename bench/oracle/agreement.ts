import { choiceOf, PROFILES, policyWith, REFERENCE } from '../../deviations/index.js';
import { noCounts } from '../../properties/coverage.js';
import { NOT_TOLD } from '../../properties/monitors/loss-notified.js';
import { Monitors } from '../../properties/monitors/monitors.js';
import type { Outage } from '../../properties/monitors/outage.js';
import type { Violation } from '../../properties/violation.js';
import type { PropertyId, Schedule } from '../../scenarios/index.js';
import { BOUND_IDS, exceedBound, type FaultModel, WITHIN_ASSUMPTIONS } from '../../search/fault-model.js';
import { faultModelFor, MUTANTS } from '../../search/mutants/registry.js';
import { premiseStream, RandomAdversary } from '../../search/random-adversary.js';
import { drawPremise } from '../../search/run-config.js';
import { COMBINED } from '../../search/tactics.js';
import {
  type Adversary,
  RandomStreams,
  RecordingAdversary,
  ScriptedAdversary,
  type Setup,
  setupOf,
  World,
} from '../../sim/index.js';
import type { Finding } from './finding.js';
import { checkTrace, OFFLINE } from './offline.js';
import { StressAdversary } from './rough.js';

/** What the two checkers say differently about one run. */
interface Disagreement {
  /** Found by the monitors and not afterwards, and the other way round; one line each. */
  readonly onlyOnline: readonly string[];
  readonly onlyOffline: readonly string[];
}

/** What one of the checkers says of a run. */
interface Said {
  readonly violations: readonly (Violation | Finding)[];
  readonly outages: readonly Outage[];
}

/**
 * Compares what the monitors reported with what the trace says: property, instants, resource and clients; and when nobody
 * could acquire. Only monitors look at whether a client is told of the end of its claim.
 */
function compare(online: Said, offline: Said): Disagreement | null {
  const [monitors, trace] = [online, offline].map(lines) as [string[], string[]];
  const onlyOnline = without(monitors, trace);
  const onlyOffline = without(trace, monitors);
  return onlyOnline.length + onlyOffline.length === 0 ? null : { onlyOnline, onlyOffline };
}

function lines({ violations, outages }: Said): string[] {
  const compared = violations.filter(
    (it) => OFFLINE.includes(it.property) && !('detail' in it && it.detail.endsWith(NOT_TOLD)),
  );
  const down = outages.map(({ reason, fromUs, toUs }) => `availability ${fromUs}..${toUs} ${reason}`);
  return [...compared.map(line), ...down].sort();
}

function line({ property, atUs, untilUs, resource, clients }: Violation | Finding): string {
  return `${property} ${atUs}..${untilUs} ${resource} ${[...clients].sort().join('+')}`;
}

/** What is left of one list when the other has been taken from it, one by one. */
function without(from: readonly string[], taken: readonly string[]): string[] {
  const left = [...from];
  for (const it of taken) {
    const at = left.indexOf(it);
    if (at >= 0) left.splice(at, 1);
  }
  return left;
}

/** Makes the monitors that are compared with the check of the trace. */
type MakeMonitors = (setup: Setup) => Monitors;

const usual: MakeMonitors = (setup) => new Monitors(setup, noCounts(), true);

/** What came of one comparison. */
interface Compared {
  /** What the trace says. */
  readonly findings: readonly Finding[];
  readonly disagreement: Disagreement | null;
}

/** Runs a schedule and compares the checkers on it. */
export function comparedOn(schedule: Schedule, make: MakeMonitors = usual): Compared {
  return runTraced(setupOf(schedule), new ScriptedAdversary(schedule), make);
}

/** What the checkers say differently about a schedule. */
export function disagreementOn(schedule: Schedule, make: MakeMonitors = usual): Disagreement | null {
  return comparedOn(schedule, make).disagreement;
}

function runTraced(setup: Setup, adversary: Adversary, make: MakeMonitors): Said & Compared {
  const monitors = make(setup);
  const world = new World(setup, adversary, monitors, true);
  world.run();
  const { violations, outages } = monitors;
  const { findings, outages: found } = checkTrace(setup, world.context.trace.events, world.now);
  return {
    violations,
    outages,
    findings,
    disagreement: compare({ violations, outages }, { violations: findings, outages: found }),
  };
}

/** What came of many comparisons. */
export interface Agreement {
  readonly runs: number;
  /** Violations by property, which both checkers found. */
  readonly violations: { readonly [P in PropertyId]?: number };
  /** Times in which nobody could acquire, by reason. */
  readonly outages: { readonly [R in Outage['reason']]?: number };
  /** Runs on which they disagree, with schedules that show it; at most {@link MOST_KEPT} are kept. */
  readonly disagreements: number;
  readonly examples: readonly (Disagreement & { readonly run: number; readonly schedule: Schedule })[];
}

/** Disagreements of which the schedules are kept. */
export const MOST_KEPT = 5;

/** With fencing tokens, and a resource that looks at them. */
const FENCED: FaultModel = {
  ...WITHIN_ASSUMPTIONS,
  nodes: 3,
  policy: policyWith({ settings: { fencing: true } }),
  resource: 'fencing',
};

/** As known clients run. */
const KNOWN: readonly FaultModel[] = Object.values(PROFILES)
  .filter(({ profile }) => profile !== REFERENCE.profile)
  .map((policy) => ({ ...WITHIN_ASSUMPTIONS, policy }));

/** The weathers that runs take turns in: the reference up to and past its bounds, known clients, and planted bugs. */
export const WEATHERS: readonly FaultModel[] = [
  WITHIN_ASSUMPTIONS,
  FENCED,
  ...BOUND_IDS.map((bound) => exceedBound(WITHIN_ASSUMPTIONS, bound, 1.5)),
  ...KNOWN,
  ...MUTANTS.map((mutant) => faultModelFor(mutant)),
];

/** The concern of the rough adversary among the streams of a run; the drawn one's come before. */
const ROUGH = 64;

/** Draws runs `from` to `to - 1`, every second one rough, and compares the monitors with the check of the trace. */
export function compareRuns(seed: string, from: number, to: number, make: MakeMonitors = usual): Agreement {
  const streams = new RandomStreams(seed);
  const violations: { [P in PropertyId]?: number } = {};
  const outages: { [R in Outage['reason']]?: number } = {};
  const examples: (Disagreement & { run: number; schedule: Schedule })[] = [];
  let disagreements = 0;
  for (let run = from; run < to; run++) {
    const { setup, adversary } = draw(streams, run);
    const { violations: found, outages: down, disagreement } = runTraced(setup, adversary, make);
    for (const { property } of found) violations[property] = (violations[property] ?? 0) + 1;
    for (const { reason } of down) outages[reason] = (outages[reason] ?? 0) + 1;
    if (disagreement === null) continue;
    disagreements++;
    if (examples.length < MOST_KEPT) examples.push({ run, ...disagreement, schedule: written(streams, run) });
  }
  return { runs: to - from, violations, outages, disagreements, examples };
}

function draw(streams: RandomStreams, run: number): { readonly setup: Setup; readonly adversary: Adversary } {
  const faultModel = WEATHERS[(run >> 1) % WEATHERS.length] ?? WITHIN_ASSUMPTIONS;
  const runConfig = drawPremise(faultModel, COMBINED, premiseStream(streams, run));
  const drawn = new RandomAdversary(faultModel, runConfig, streams, run);
  const adversary = run % 2 === 0 ? drawn : new StressAdversary(drawn, streams.stream(run, ROUGH));
  return { setup: runConfig.setup, adversary };
}

/** The same run again, written down. */
function written(streams: RandomStreams, run: number): Schedule {
  const { setup, adversary } = draw(streams, run);
  const recording = new RecordingAdversary(adversary, setup.clients.length);
  runTraced(setup, recording, usual);
  return recording.schedule(setup, choiceOf(setup.policy));
}
