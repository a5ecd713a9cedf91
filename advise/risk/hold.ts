import { choiceOf, type Policy, policyWith } from '../../deviations/index.js';
import {
  type ClockPlan,
  type Distance,
  type Fault,
  type LockPlan,
  plainCluster,
  plainLock,
  type Schedule,
} from '../../scenarios/index.js';
import { nodeName, type RandomStream, type Setup } from '../../sim/index.js';
import { between, unit } from './draws.js';
import { CALL_US, type DrawnEvent } from './event-classes.js';
import { type HoldWatch, watchHold } from './hold-watch.js';
import type { RiskModel } from './model.js';

/**
 * Whether others want the lock during a hold: nobody (`alone`), somebody who asks so shortly before or after that both share
 * the votes (`close`), or somebody whose attempts lie elsewhere (`apart`).
 */
export type Contention = 'alone' | 'apart' | 'close';

/** The harm of a hold. */
export interface Harm {
  /** Two clients believed at once that they hold the lock. */
  readonly overlap: boolean;
  /** A write arrived while its writer did not hold the lock. */
  readonly late: boolean;
  /** Fencing tokens were out of order. */
  readonly disordered: boolean;
}

/** One hold, run. */
export interface HoldRun extends Harm {
  readonly violated: boolean;
  readonly held: boolean;
  /** Replays to the same. */
  readonly schedule: Schedule;
}

/** What is drawn for a hold beside the events that happen to it. */
export interface HoldDraw {
  readonly contention: Contention;
  readonly holdUs: number;
  readonly clocks: readonly ClockPlan[];
  readonly distances: readonly Distance[];
  readonly writeUs: number;
  /** When the other client asks for the lock in the case `close`. */
  readonly closeUs: number;
  /** From when the lock is free to the attempts of others after that. */
  readonly attemptsUs: readonly number[];
}

/** Attempts of others that are tried once a quorum is free. */
const ATTEMPTS = 3;
/** A client that tries again at once is taken to wait for so long, µs. */
const LEAST_RETRY_US = 1_000;

/** Draws all that no event decides. */
export function drawHold(model: RiskModel, contention: Contention, holdUs: number, stream: RandomStream): HoldDraw {
  const { nodes, delayUs, driftPpm, writeUs } = model;
  const names = nodes.map((_, i) => nodeName(i));
  const clocks = ['c1', 'c2', ...names].map((process) => ({
    process,
    offsetUs: between(0, 999, stream),
    ratePpm: between(-driftPpm, driftPpm, stream),
  }));
  const distances = ['c1', 'c2'].flatMap((client) =>
    names.map((node) => ({ client, node, delayUs: between(...delayUs, stream) })),
  );
  return {
    contention,
    holdUs,
    clocks,
    distances,
    writeUs: between(...writeUs, stream),
    closeUs: CALL_US + between(-delayUs[1], delayUs[1], stream),
    attemptsUs: drawAttempts(model, stream),
  };
}

/** The mean pause between two attempts of a waiting client, µs. */
export function retryUs({ policy: { settings } }: RiskModel): number {
  return Math.max(LEAST_RETRY_US, settings.retryDelayUs);
}

/** When a client that has been waiting tries next, and after that; the soonest of several. */
function drawAttempts(model: RiskModel, stream: RandomStream): number[] {
  const { retryJitterUs } = model.policy.settings;
  const mean = retryUs(model);
  const low = Math.max(LEAST_RETRY_US, mean - retryJitterUs);
  const high = Math.max(low, mean + retryJitterUs);
  let first = Number.POSITIVE_INFINITY;
  for (let i = 0; i < model.rivals; i++) {
    // A pause that is under way at a given time is met the more often the longer it is.
    let pause = 0;
    do pause = low + unit(stream) * (high - low);
    while (unit(stream) * high > pause);
    first = Math.min(first, unit(stream) * pause);
  }
  const attempts = [Math.floor(first)];
  for (let i = 1; i < ATTEMPTS; i++) {
    const pause = (low + unit(stream) * (high - low)) / model.rivals;
    attempts.push(Math.floor((attempts[i - 1] ?? 0) + pause));
  }
  return attempts;
}

/** What every run of a model has in common. */
export class HoldRunner {
  private readonly model: RiskModel;
  private readonly policy: Policy;

  constructor(model: RiskModel) {
    this.model = model;
    // Attempts are drawn, each as a call of its own.
    this.policy = policyWith({ settings: { tries: 1 } }, model.policy);
  }

  /** Runs a hold to which these events happen. */
  run(draw: HoldDraw, events: readonly DrawnEvent[]): HoldRun {
    const gaps = events.filter(({ window }) => window === 'gap');
    const others = events.filter(({ window }) => window !== 'gap');
    const first = this.schedule(draw, others, [], []);
    const alone = this.watch(first);
    const strikes = gaps.length === 0 ? [] : this.strikesInGap(draw, others, gaps, alone.heldAtUs);
    const second = strikes.length === 0 ? first : this.schedule(draw, others, strikes, []);
    const watch = strikes.length === 0 ? alone : this.watch(second);
    if (draw.contention === 'alone' || watch.heldAtUs === null || watch.freeUs >= watch.endUs)
      return judged(second, watch);
    const calls = draw.attemptsUs.map((us) => watch.freeUs + us);
    const third = this.schedule(draw, others, strikes, calls);
    return judged(third, this.watch(third));
  }

  /** Faults between the last look and the sending of the write, in true time. */
  private strikesInGap(
    draw: HoldDraw,
    others: readonly DrawnEvent[],
    gaps: readonly DrawnEvent[],
    heldAtUs: number | null,
  ): Fault[] {
    if (heldAtUs === null) return [];
    const rate = 1 + (draw.clocks[0]?.ratePpm ?? 0) / 1_000_000;
    const lookUs = heldAtUs + Math.ceil((draw.holdUs + longer(others)) / rate);
    return gaps.flatMap(({ faults }) => faults.map((fault) => ({ ...fault, atUs: lookUs + 1 + fault.atUs })));
  }

  private watch(schedule: Schedule): HoldWatch {
    const setup: Setup = {
      cluster: schedule.cluster,
      policy: this.policy,
      clients: schedule.clients.map(({ id }) => id),
      resource: schedule.resource ?? 'none',
      untilUs: schedule.untilUs,
    };
    return watchHold(schedule, setup);
  }

  private schedule(
    draw: HoldDraw,
    events: readonly DrawnEvent[],
    strikes: readonly Fault[],
    calls: readonly number[],
  ): Schedule {
    const { model } = this;
    const standing = strikes.reduce((sum, it) => sum + ('forUs' in it ? it.forUs : 0), 0);
    const holder = this.holder(draw, events, standing);
    const faults = [...events.flatMap((event) => event.faults), ...strikes, ...this.endOfWork(draw, events)];
    const close = draw.contention === 'close' ? [plainLock(draw.closeUs, model.ttlMs)] : [];
    const rival = [...close, ...calls.map((atUs) => plainLock(atUs, model.ttlMs))];
    const last = faults.reduce((most, fault) => Math.max(most, fault.atUs), 0);
    const written = (holder.writes[0]?.delayUs ?? 0) + (holder.holdUs ?? 0);
    return {
      schema: 'lockstep.schedule/2',
      cluster: plainCluster(model.nodes.length, {
        delayUs: model.delayUs[1],
        distances: draw.distances,
        persistence: 'always',
        clocks: draw.clocks,
      }),
      policy: choiceOf(this.policy),
      clients: [
        { id: 'c1', locks: [holder] },
        { id: 'c2', locks: rival },
      ],
      faults: faults.sort((a, b) => a.atUs - b.atUs),
      fates: [],
      ...(model.fenced ? { resource: 'fencing' } : {}),
      untilUs: Math.ceil(1.1 * (CALL_US + written + standing) + 4000 * model.ttlMs + (last - CALL_US)),
    };
  }

  /**
   * What is planned goes by the client's clock, but work does not: where that clock is set back, the work ends all the same,
   * and the hold with it.
   */
  private endOfWork(draw: HoldDraw, events: readonly DrawnEvent[]): Fault[] {
    if (events.every(({ cause }) => cause !== 'clientStep')) return [];
    const { delayUs, gapUs } = this.model;
    const atUs = CALL_US + 2 * delayUs[1] + draw.holdUs + longer(events) + gapUs + draw.writeUs;
    return [{ kind: 'client-crash', atUs, client: 'c1' }];
  }

  /** What the holder does: it works, looks at its lock, writes, and releases once the write is there. */
  private holder(draw: HoldDraw, events: readonly DrawnEvent[], standingUs: number): LockPlan {
    const { model } = this;
    const workUs = draw.holdUs + longer(events);
    const late = events.flatMap(({ writeUs }) => writeUs ?? []);
    const delayUs = Math.max(draw.writeUs, ...late);
    const sendUs = workUs + model.gapUs;
    const step = 500 * model.ttlMs;
    const rounds = model.extends ? Math.floor((workUs - 1) / step) : 0;
    const extensions = Array.from({ length: rounds }, (_, i) => ({ afterUs: (i + 1) * step, ttlMs: model.ttlMs }));
    const write = { checkAfterUs: workUs, guardUs: model.guardUs, sendAfterUs: sendUs, delayUs };
    // A pause may begin as late as on the way of the write; the release waits until that has arrived.
    const restUs = longer(events) > 0 ? 2 * model.delayUs[1] + model.writeUs[1] : 0;
    const endUs = model.writes ? sendUs + standingUs + restUs + Math.ceil(1.1 * delayUs) + 1_000 : workUs;
    return plainLock(CALL_US, model.ttlMs, { holdUs: endUs, extensions, writes: model.writes ? [write] : [] });
  }
}

function longer(events: readonly DrawnEvent[]): number {
  return events.reduce((sum, it) => sum + it.longerUs, 0);
}

function judged(schedule: Schedule, watch: HoldWatch): HoldRun {
  const { violations } = watch;
  const overlap = violations.some(({ property }) => property === 'mutual-exclusion');
  const late = violations.some(({ property }) => property === 'no-stale-write');
  const disordered = violations.some(({ property }) => property === 'fencing');
  return {
    overlap,
    late,
    disordered,
    violated: overlap || late || disordered,
    held: watch.heldAtUs !== null,
    schedule,
  };
}
