import { driftAllowanceUs, type Policy } from '../deviations/index.js';
import { type FaultModel, mostDownOf } from './fault-model.js';

const MILLION = 1_000_000;

/** How far each assumption of the lock stretches for one TTL, when it is the only one that is stressed. */
export interface AssumptionBounds {
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
export function assumptionBoundsOf(policy: Policy, ttlMs: number): AssumptionBounds {
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
export function keepsBounds(faultModel: FaultModel): boolean {
  const { policy, ttlsMs, restartDelayUs, stepUs, ratePpm, persistence, stretch } = faultModel;
  const least = ttlsMs.map((ttlMs) => assumptionBoundsOf(policy, ttlMs));
  const restartsLate = mostDownOf(faultModel) === 0 || persistence === 'always' || restartDelayUs === null;
  return (
    Object.values(stretch).every((factor) => factor <= 1) &&
    least.every((bounds) => (stepUs ?? 0) <= bounds.stepUs && (ratePpm ?? 0) <= bounds.bothRatesPpm) &&
    (restartsLate || least.every((bounds) => restartDelayUs >= bounds.restartUs)) &&
    faultModel.flushes === 0 &&
    (faultModel.failovers === 0 || faultModel.replicaLagUs === 0) &&
    !faultModel.answersEarly &&
    !faultModel.namesTwice
  );
}
