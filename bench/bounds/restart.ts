import type { Fault } from '../../scenarios/index.js';
import { type Attack, attack } from '../../search/safety-map/adversary.js';
import { least } from '../../search/safety-map/bisect.js';

/** A node without persistence crashes after it has voted, and returns empty after a delay. */
export interface RestartCase {
  readonly ttlMs: number;
  readonly delayUs: number;
  /** True time of the crash, at or after the holder's SETs, µs. */
  readonly crashUs: number;
  /** Nodes behind the holder, and how many of them crash. Default: 3 and 1. */
  readonly votes?: number;
  readonly crashing?: number;
  /** Error of rate: slow holder, crashing nodes fast. */
  readonly ppm?: number;
  /** The clock that measures the absence jumps forward by this meanwhile, µs. */
  readonly stepUs?: number;
}

/** The nodes crash and return `awayUs` of true time later; the rival is there when they do. */
export function restartAttack(wanted: RestartCase, awayUs: number): Attack {
  const { ttlMs, delayUs, crashUs, votes = 3, crashing = 1, ppm = 0, stepUs = 0 } = wanted;
  const faults = Array.from({ length: crashing }, (_, i): Fault[] => [
    { kind: 'crash', atUs: crashUs, edge: 'after', node: `n${i}`, restartAfterUs: awayUs },
    ...(stepUs === 0 ? [] : [step(`n${i}`, crashUs, stepUs)]),
  ]).flat();
  return attack({ ttlMs, delayUs, votes, faults, clientPpm: -ppm, nodePpm: ppm, drifting: crashing });
}

function step(process: string, crashUs: number, byUs: number): Fault {
  return { kind: 'clock-step', atUs: crashUs, edge: 'after', process, byUs };
}

/** The shortest absence that lets nobody in, µs of true time. */
export function leastAbsence(wanted: RestartCase): number {
  return least(1, 2000 * wanted.ttlMs, (awayUs) => !restartAttack(wanted, awayUs).overlap);
}

/** The same as the clock of the crashed node counts it, its jumps included, µs. */
export function leastRestartDelay(wanted: RestartCase): number {
  const counted = restartAttack(wanted, leastAbsence(wanted)).awayUs.get('n0');
  if (counted === undefined) throw new Error('n0 did not return');
  return counted;
}
