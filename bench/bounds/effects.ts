import type { Fault, Schedule, WritePlan } from '../../scenarios/index.js';
import { alone } from '../../search/safety-map/adversary.js';
import { greatest } from '../../search/safety-map/bisect.js';
import { observeRun } from '../../search/safety-map/watch.js';

const DELAY_US = 1_000;
const CLAIMED_US = 2 * DELAY_US;
const QUANTUM_US = 1;

/** A client that writes only if it has so much validity left when it looks. */
export interface EffectCase {
  readonly ttlMs: number;
  readonly guardUs: number;
  /** Error of the rate of its clock, ppm. */
  readonly ppm: number;
}

/** It looks `checkAfterUs` after its claim, by its clock; what is planned for after that is in `write` and `faults`. */
function writing(
  { ttlMs, guardUs, ppm }: EffectCase,
  checkAfterUs: number,
  write: Partial<WritePlan> = {},
  faults: readonly Fault[] = [],
): Schedule {
  const plan: WritePlan = { checkAfterUs, guardUs, sendAfterUs: checkAfterUs, delayUs: 0, ...write };
  return alone({ ttlMs, delayUs: DELAY_US, clientPpm: ppm, holder: { writes: [plan] }, faults });
}

/** The last look after which it still writes, by its clock, µs after its claim. */
function lastLook(wanted: EffectCase): number {
  return greatest(0, 1000 * wanted.ttlMs, (us) => observeRun(writing(wanted, us)).writes > 0);
}

/** It looks as late as it can: the longest way of its write that is still in time, µs. */
export function longestWay(wanted: EffectCase): number {
  const look = lastLook(wanted);
  return greatest(0, 2_000 * wanted.ttlMs, (delayUs) => !observeRun(writing(wanted, look, { delayUs })).late);
}

/** It looks as late as it can, and is frozen before it sends: for the longest time with which its write is still in time, µs. */
export function longestPause(wanted: EffectCase): number {
  const look = lastLook(wanted);
  const atUs = CLAIMED_US + look + QUANTUM_US;
  const write = { sendAfterUs: look + QUANTUM_US };
  const pause = (forUs: number): Fault => ({ kind: 'pause', process: 'c1', atUs, forUs });
  const forUs = greatest(1, 2_000 * wanted.ttlMs, (us) => !observeRun(writing(wanted, look, write, [pause(us)])).late);
  return forUs + QUANTUM_US;
}
