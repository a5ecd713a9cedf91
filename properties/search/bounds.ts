import { driftAllowanceUs, type Policy } from '../../deviations/index.js';

const MILLION = 1_000_000;

/** How far each assumption of the lock stretches for one TTL, when it is the only one that is strained. */
export interface Bounds {
  /** Greatest rate error on both sides, on the nodes alone, on the clients alone; ppm, whole. */
  readonly bothRatesPpm: number;
  readonly nodeRatePpm: number;
  readonly clientRatePpm: number;
  /** Greatest sum of steps, of a client backwards and a node forwards, µs. */
  readonly stepUs: number;
  /** Least restart delay of a node without persistence, µs of true time. */
  readonly restartUs: number;
}

/**
 * The bounds for latency zero, from (TTL − D) / (1 − r_c) ≤ TTL / (1 + r_n): what a deployment can rely on whatever its
 * network does. Rates are rounded inwards.
 */
export function boundsOf(policy: Policy, ttlMs: number): Bounds {
  const ttl = ttlMs * 1000;
  const drift = driftAllowanceUs(policy, ttl);
  return {
    bothRatesPpm: Math.floor((drift * MILLION) / (2 * ttl - drift)),
    nodeRatePpm: Math.floor((drift * MILLION) / (ttl - drift)),
    clientRatePpm: Math.floor((drift * MILLION) / ttl),
    stepUs: drift,
    restartUs: ttl - drift,
  };
}
