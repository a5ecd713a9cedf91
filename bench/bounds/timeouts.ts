import type { Fault } from '../../scenarios/index.js';
import { alone } from '../../search/safety-map/adversary.js';
import { greatest } from '../../search/safety-map/bisect.js';
import { observeRun } from '../../search/safety-map/watch.js';

/** A client that asks one node after the other, while some of the five do not answer. */
export interface TimeoutCase {
  readonly ttlMs: number;
  readonly delayUs: number;
  /** Nodes that are down, the first ones asked. */
  readonly down: number;
  readonly sending: 'parallel' | 'sequential';
  /** What must be left of the claim, µs. Default 0: anything. */
  readonly minValidityUs?: number;
}

/** Whether a client with this time-out for each node gets the lock. */
function acquires(wanted: TimeoutCase, timeoutUs: number): boolean {
  const { ttlMs, delayUs, sending, minValidityUs = 0 } = wanted;
  const faults = Array.from(
    { length: wanted.down },
    (_, i): Fault => ({ kind: 'crash', atUs: 0, node: `n${i}`, restartAfterUs: null }),
  );
  const policy = {
    settings: { nodeTimeoutUs: timeoutUs, minValidityUs },
    deviations: sending === 'sequential' ? ['asks-in-turn'] : [],
  };
  return observeRun(alone({ ttlMs, delayUs, faults, policy })).claims.length > 0;
}

/** The longest time-out with which the client still gets the lock, µs. */
export function greatestTimeout(wanted: TimeoutCase): number {
  return greatest(2 * wanted.delayUs + 1, 1000 * wanted.ttlMs, (timeoutUs) => acquires(wanted, timeoutUs));
}
