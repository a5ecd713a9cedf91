import type { Fault } from '../../scenarios/index.js';
import { ALIGNED, type Attack, attack, type ExpiryModel } from '../../search/safety-map/adversary.js';
import { greatest, least } from '../../search/safety-map/bisect.js';

/** A step of clocks while a client holds a lock. */
interface StepCase {
  readonly ttlMs: number;
  readonly delayUs: number;
  readonly grain?: ExpiryModel;
  /** Nodes behind the holder, and how many of them step. Default: 3 and 1. */
  readonly votes?: number;
  readonly stepping?: number;
  /** True time of the step; by default the instant in which the holder claims. */
  readonly atUs?: number;
  /** Error of rate on top: slow holder, stepping nodes fast. */
  readonly ppm?: number;
}

/** The clocks of some nodes jump forward by `byUs`. */
export function nodeStepAttack(wanted: StepCase, byUs: number): Attack {
  const { ttlMs, delayUs, grain = ALIGNED, votes = 3, stepping = 1, atUs = 2 * delayUs, ppm = 0 } = wanted;
  // After the SET, and otherwise first of all, so that the rival can make use of it in the same instant.
  const edge = atUs > delayUs ? 'before' : 'after';
  const faults = Array.from(
    { length: stepping },
    (_, i): Fault => ({ kind: 'clock-step', atUs, edge, process: `n${i}`, byUs }),
  );
  return attack({ ttlMs, delayUs, grain, votes, faults, clientPpm: -ppm, nodePpm: ppm, drifting: stepping });
}

/** The greatest step forward of these nodes that lets nobody in, µs. */
export function greatestNodeStep(wanted: StepCase): number {
  return greatest(0, 1000 * wanted.ttlMs - 1, (byUs) => !nodeStepAttack(wanted, byUs).overlap);
}

/** The least step forward, in whole milliseconds, that lets somebody in. */
export function leastHarmfulNodeStepMs(wanted: StepCase): number {
  return least(0, wanted.ttlMs - 1, (ms) => nodeStepAttack(wanted, 1000 * ms).overlap);
}

/** The last true time at which a step by the whole TTL and more still lets somebody in, µs. */
export function latestUsefulStep(wanted: StepCase): number {
  const far = 2000 * wanted.ttlMs;
  return greatest(wanted.delayUs + 1, far, (atUs) => nodeStepAttack({ ...wanted, atUs }, far).overlap);
}

/** The wall clock of the holder, which it reads, jumps back by `byUs`; the nodes are healthy and all of them voted for it. */
export function clientStepAttack(wanted: StepCase, byUs: number): Attack {
  const { ttlMs, delayUs, grain = ALIGNED, votes = 5, atUs = 2 * delayUs } = wanted;
  const faults: Fault[] = [{ kind: 'clock-step', atUs, edge: 'after', process: 'c1', byUs: -byUs }];
  return attack({ ttlMs, delayUs, grain, votes, faults, policy: { habits: { clock: 'wall' } } });
}

/** The greatest step back of the holder's clock that lets nobody in, µs. */
export function greatestClientStep(wanted: StepCase): number {
  return greatest(0, 1000 * wanted.ttlMs - 1, (byUs) => !clientStepAttack(wanted, byUs).overlap);
}

/** The least step back, in whole milliseconds, that lets somebody in. */
export function leastHarmfulClientStepMs(wanted: StepCase): number {
  return least(0, wanted.ttlMs - 1, (ms) => clientStepAttack(wanted, 1000 * ms).overlap);
}

/**
 * The machine of the holder is suspended for `forUs`, and with it the clock that it reads: a suspend that a monotonic
 * clock does not count, or a virtual machine that is paused, which no clock of its own counts.
 */
function suspendedClientAttack(wanted: StepCase, forUs: number, stops: 'monotonic' | 'all'): Attack {
  const { ttlMs, delayUs, grain = ALIGNED, votes = 5, atUs = 2 * delayUs } = wanted;
  const faults: Fault[] = [{ kind: 'suspend', atUs, edge: 'after', process: 'c1', forUs, stops }];
  const clock = stops === 'all' ? 'boot' : 'monotonic';
  return attack({ ttlMs, delayUs, grain, votes, faults, policy: { habits: { clock } } });
}

/** The longest stop of the holder's clock that lets nobody in, µs. */
export function greatestClientStop(wanted: StepCase, stops: 'monotonic' | 'all'): number {
  return greatest(0, 1000 * wanted.ttlMs - 1, (forUs) => !suspendedClientAttack(wanted, forUs, stops).overlap);
}

/** The holder is given a relative validity, and starts to count it `lagUs` after the last answer. */
function lateTimerAttack(wanted: StepCase, lagUs: number): Attack {
  const { ttlMs, delayUs, grain = ALIGNED, votes = 5 } = wanted;
  return attack({ ttlMs, delayUs, grain, votes, policy: { deviations: [`deadline-counted-after-us:${lagUs}`] } });
}

/** The latest start of a relative validity that lets nobody in, µs after the last answer. */
export function greatestTimerLag(wanted: StepCase): number {
  return greatest(0, 1000 * wanted.ttlMs - 1, (lagUs) => !lateTimerAttack(wanted, lagUs).overlap);
}
