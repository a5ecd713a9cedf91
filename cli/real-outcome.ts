import { policyOf } from '../deviations/index.js';
import { judgeAsExpected, judgedProperties } from '../properties/expectation.js';
import { judgeObserved, type ObservedVerdict, showsOutside } from '../properties/history/observed.js';
import { notReplayableReason, type Observation, playOnRedis } from '../real/replay/index.js';
import type { Expectation, PropertyId, Schedule, Verdict } from '../scenarios/index.js';
import { findReplayable, NOISE, type Noise, type Playable, standsIn } from './retime/margin.js';

/** What came of a schedule on real nodes, beside what happens in the simulator. */
export interface RealOutcome {
  readonly id: string;
  /** As it is written, and simulated. */
  readonly simulated: Verdict;
  /** `refused` was not played; `noisy` was, on a machine measured to be too slow to tell. */
  readonly status: 'agreed' | 'differed' | 'refused' | 'noisy';
  /** Why it was refused, or what differs; `null` where they agree. */
  readonly reason: string | null;
  readonly play: RealPlay | null;
}

/** A play on real nodes. */
export interface RealPlay {
  /** At the pace at which it was played. */
  readonly schedule: Schedule;
  /** What the schedule is slower or faster by, after its stretched parts: a key's life there and here, ms. */
  readonly ttlMs: { readonly written: number; readonly real: number };
  readonly observation: Observation;
  readonly found: ObservedVerdict;
}

const MOST_PLAYS = 3;

/** Plays a schedule on real nodes, and compares the verdict with the simulated one. */
export async function realOutcome(
  id: string,
  schedule: Schedule,
  expect: Expectation,
  signal: AbortSignal,
): Promise<RealOutcome> {
  const judgement = judgeAsExpected(schedule, expect);
  const { verdict: simulated } = judgement;
  const refused = (reason: string): RealOutcome => ({ id, simulated, status: 'refused', reason, play: null });
  const impossible = notReplayableReason(schedule);
  if (impossible !== null) return refused(impossible);
  const hidden = judgement.violations.find(
    (it) => judgedProperties(expect).includes(it.property) && !showsOutside(it, policyOf(schedule.policy)),
  );
  if (hidden !== undefined) return refused(`a violation of ${hidden.property} does not show from outside`);
  const found = findReplayable(schedule, expect);
  if ('reason' in found) return refused(found.reason);
  const properties = propertiesOf(
    judgement.violations.map(({ property }) => property),
    expect,
  );
  let outcome = refused('it was not played');
  for (let plays = 0; plays < MOST_PLAYS && !signal.aborted; plays++) {
    const play = await playOnce(schedule, found, expect, signal);
    const difference = differenceOf(simulated, properties, found, play);
    const excuse = difference === null ? null : excuseFor(play, found, expect);
    const status = difference === null ? 'agreed' : excuse === null ? 'differed' : 'noisy';
    outcome = { id, simulated, status, reason: excuse === null ? difference : `${excuse}; ${difference}`, play };
    // A difference that noise does not explain is not played away.
    if (status !== 'noisy') break;
  }
  return outcome;
}

async function playOnce(
  written: Schedule,
  { schedule, pace }: Playable,
  expect: Expectation,
  signal: AbortSignal,
): Promise<RealPlay> {
  const observation = await playOnRedis(schedule, { signal });
  const also = (expect.violations ?? []).map(({ property }) => property);
  const ttlMs = { written: written.clients[0]?.locks[0]?.ttlMs ?? 0, real: Math.round(pace.realPeriodUs / 1000) };
  return { schedule, ttlMs, observation, found: judgeObserved(observation, also) };
}

/** What counts in the verdict, each once, sorted: `quorum-backed` only where the scenario is about it. */
function propertiesOf(found: readonly PropertyId[], expect: Expectation): string {
  const judged = judgedProperties(expect);
  return [...new Set(found.filter((property) => judged.includes(property)))].sort().join(', ');
}

function differenceOf(
  simulated: Verdict,
  properties: string,
  { claims }: Playable,
  { found, observation }: RealPlay,
): string | null {
  if (found.verdict !== simulated) return `simulated it is ${simulated}, on real nodes ${found.verdict}`;
  const seen = found.properties.join(', ');
  if (seen !== properties) return `simulated it violates ${properties}, on real nodes ${seen}`;
  if (claims === null) return null;
  const [wanted, made] = [claims.join(' '), observation.claims.map(({ client }) => client).join(' ')];
  return wanted === made ? null : `simulated the claims are ${wanted || 'none'}, on real nodes ${made || 'none'}`;
}

/**
 * What of the measured times was longer than allowed for, if that much can change the outcome in the simulator as well;
 * else `null`: then slowness does not explain a difference.
 */
function excuseFor({ observation }: RealPlay, found: Playable, expect: Expectation): string | null {
  const { eventUs, answerUs, startUs } = observation.lateness;
  const times: readonly (readonly [string, number, number])[] = [
    ['latest event', eventUs, NOISE.lateUs],
    ['slowest connection', answerUs, NOISE.delayUs],
    ['slowest start', startUs, NOISE.startUs],
  ];
  const longer = times.filter(([, us, allowedUs]) => us > allowedUs);
  if (longer.length === 0) return null;
  const noise: Noise = {
    lateUs: Math.max(NOISE.lateUs, eventUs),
    // Answers wait for the event loop, too.
    delayUs: Math.max(NOISE.delayUs, answerUs, eventUs),
    startUs: Math.max(NOISE.startUs, startUs),
    clockUs: NOISE.clockUs,
  };
  const withNoise = standsIn(noise, found, expect);
  if (!('reason' in withNoise) && (found.claims === null || withNoise.claims !== null)) return null;
  const ms = (us: number): number => Math.round(us / 1000);
  return longer.map(([what, us, allowedUs]) => `${what} ${ms(us)} ms, ${ms(allowedUs)} allowed`).join(', ');
}
