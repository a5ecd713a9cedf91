import { noCounts } from '../properties/coverage.js';
import type { Judgement } from '../properties/index.js';
import { Monitors } from '../properties/monitors/monitors.js';
import type { Fault, LockPlan, PropertyId, Schedule } from '../scenarios/index.js';
import { mitigate } from '../scenarios/index.js';
import {
  type Adversary,
  type DecisionPoint,
  type Direction,
  type FateSlot,
  type Message,
  type RandomStream,
  RandomStreams,
  ScriptedAdversary,
  setupOf,
  World,
  type WorldView,
} from '../sim/index.js';
import { formatPercent } from '../text/format.js';
import type { Counterfactual, Likelihood } from './payload.js';
import { mostSevere } from './story.js';

/** Futures drawn from each prefix, and prefixes at most. */
const FUTURES = 40;
const MOST_PREFIXES = 48;
/** Of the futures of each prefix, how many the mitigations are tried on. */
const TRIED = 8;
/** Of the messages in a future, so many are lost, ppm; the others take up to twice their usual time. */
const LOST_PPM = 30_000;
/** Faults of the schedule that are still to come strike in so many futures, ppm. */
const STRIKES_PPM = 500_000;
/** What is drawn, for readers: a share means nothing without it. */
const MODEL =
  `Up to an instant, the run is as written. From there on, ${FUTURES} futures are drawn: of its messages ${formatPercent(LOST_PPM)} are ` +
  `lost, and the others take up to twice their usual time; each fault that is still to come strikes in ${formatPercent(STRIKES_PPM)} of them, ` +
  'at any time up to the end of the run; calls of clients stay as they are. The chance is the share of these futures that ends in the ' +
  'same kind of violation, and from the point of no return on, all do. Mitigations are tried on ' +
  `${TRIED} of the futures of each instant. These are shares of what is drawn here, not rates in production.`;
/** Longer runs would keep a person waiting. */
const MOST_EVENTS = 2_000;

/** Follows a schedule up to an instant, and from there on draws what becomes of messages. */
class ForkedAdversary implements Adversary {
  private readonly written: ScriptedAdversary;
  private readonly untilUs: number;
  private readonly draws: RandomStream;

  constructor(schedule: Schedule, untilUs: number, draws: RandomStream) {
    this.written = new ScriptedAdversary(schedule);
    this.untilUs = untilUs;
    this.draws = draws;
  }

  nextLock(client: number): LockPlan | null {
    return this.written.nextLock(client);
  }

  jitterPpm(client: number, lock: number, attempt: number): number {
    return this.written.jitterPpm(client, lock, attempt);
  }

  fate(message: Message, direction: Direction, send: number, slot: FateSlot, view: WorldView): void {
    if (view.now <= this.untilUs) {
      this.written.fate(message, direction, send, slot);
      return;
    }
    slot.lost = this.draws.chance(LOST_PPM);
    slot.delayUs = this.draws.between(0, 2 * slot.delayUs);
  }

  nextFault(moment: DecisionPoint): Fault | null {
    return this.written.nextFault(moment);
  }
}

/** Faults that were still to come strike with even chance, at any time until the end of the run as it was. */
function withFutureFaults(schedule: Schedule, untilUs: number, endUs: number, draws: RandomStream): Schedule {
  const faults = schedule.faults.flatMap((fault): Fault[] => {
    if (fault.atUs <= untilUs) return [fault];
    const strikes = draws.chance(STRIKES_PPM);
    const atUs = draws.between(untilUs + 1, Math.max(untilUs + 1, endUs));
    return strikes ? [{ ...fault, atUs }] : [];
  });
  return { ...schedule, faults };
}

interface Fork {
  readonly atUs: number;
  readonly seq: number;
}

/** One future: whether it violates one of the properties, and whether somebody was kept out. */
function future(
  schedule: Schedule,
  fork: Fork,
  endUs: number,
  draws: RandomStream,
  properties: readonly PropertyId[],
): 'violated' | 'unavailable' | 'safe' {
  const forked = withFutureFaults(schedule, fork.atUs, endUs, draws);
  const setup = setupOf(forked);
  const monitors = new Monitors(setup, noCounts(), true);
  const world = new World(setup, new ForkedAdversary(forked, fork.atUs, draws), monitors, false);
  world.run();
  if (monitors.violations.some((it) => properties.includes(it.property))) return 'violated';
  return monitors.outages.length > 0 ? 'unavailable' : 'safe';
}

/** The instants of a run up to its first violation, each with the last event at it; the whole start first. */
function forksOf({ run, violations }: Judgement): Fork[] {
  const until = Math.min(...mostSevere(violations).map((it) => it.atUs));
  const forks = new Map<number, Fork>([[-1, { atUs: -1, seq: run.trace[0]?.seq ?? 0 }]]);
  for (const { atUs, seq } of run.trace) if (atUs <= until) forks.set(atUs, { atUs, seq });
  const all = [...forks.values()];
  const step = Math.ceil(all.length / MOST_PREFIXES);
  return all.filter((_, index) => index % step === 0 || index === all.length - 1);
}

function isTooLong({ run, violations }: Judgement): boolean {
  return violations.length === 0 || run.events > MOST_EVENTS;
}

/** How likely the violation was from each instant of the run on; `null` where nothing was violated, or the run is too long. */
export function likelihood(schedule: Schedule, judgement: Judgement): Likelihood | null {
  if (isTooLong(judgement)) return null;
  const properties = mostSevere(judgement.violations).map(({ property }) => property);
  const streams = new RandomStreams(`likelihood ${judgement.run.hash}`);
  const points = forksOf(judgement).map((fork, prefix) => {
    let violating = 0;
    for (let k = 0; k < FUTURES; k++) {
      const draws = streams.stream(prefix, k);
      if (future(schedule, fork, lastOf(judgement), draws, properties) === 'violated') violating++;
    }
    return { seq: fork.seq, atUs: Math.max(0, fork.atUs), violating };
  });
  return { futures: FUTURES, model: MODEL, points };
}

/** Each mitigation on the same futures of the run: the same draws from the same instants. */
export function counterfactual(
  schedule: Schedule,
  judgement: Judgement,
  mitigations: readonly string[],
): Counterfactual | null {
  if (isTooLong(judgement)) return null;
  const properties = mostSevere(judgement.violations).map(({ property }) => property);
  const streams = new RandomStreams(`likelihood ${judgement.run.hash}`);
  const forks = forksOf(judgement);
  const rows = ['', ...mitigations].map((mitigation) => {
    const mitigated = mitigation === '' ? schedule : mitigate(schedule, mitigation);
    const counts = { violated: 0, unavailable: 0, safe: 0 };
    for (const [prefix, fork] of forks.entries()) {
      for (let k = 0; k < TRIED; k++)
        counts[future(mitigated, fork, lastOf(judgement), streams.stream(prefix, k), properties)]++;
    }
    return { mitigation, violated: counts.violated, unavailable: counts.unavailable, runs: forks.length * TRIED };
  });
  return { schedules: `${forks.length * TRIED} futures of this run`, rows };
}

function lastOf({ run }: Judgement): number {
  return run.trace.at(-1)?.atUs ?? 0;
}
