import { driftAllowanceUs, type Policy } from '../deviations/index.js';
import { mostDownOf, type Weather } from './weather.js';

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

/** Whether all that a search draws keeps the assumptions of the lock, or comes up to their bounds and no farther. */
export function keepsBounds(weather: Weather): boolean {
  const { policy, ttlsMs, restartDelayUs, stepUs, ratePpm, persistence, stretch } = weather;
  const least = ttlsMs.map((ttlMs) => boundsOf(policy, ttlMs));
  const restartsLate = mostDownOf(weather) === 0 || persistence === 'always' || restartDelayUs === null;
  return (
    Object.values(stretch).every((factor) => factor <= 1) &&
    least.every((bounds) => (stepUs ?? 0) <= bounds.stepUs && (ratePpm ?? 0) <= bounds.bothRatesPpm) &&
    (restartsLate || least.every((bounds) => restartDelayUs >= bounds.restartUs)) &&
    weather.flushes === 0 &&
    (weather.failovers === 0 || weather.replicaLagUs === 0) &&
    !weather.answersEarly &&
    !weather.namesTwice
  );
}
