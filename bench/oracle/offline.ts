import type { Outage } from '../../properties/monitors/outage.js';
import type { PropertyId } from '../../scenarios/index.js';
import type { Setup, TraceEvent } from '../../sim/index.js';
import { outages } from './availability.js';
import { mutualExclusion, noStaleWrite, quorumBacked } from './belief-rules.js';
import { acquisition, continuity, extension, lossNotified } from './claim-rules.js';
import { fencing } from './fencing-rules.js';
import type { Finding } from './finding.js';
import { cleanup, oneLockPerToken, ownerOnlyRelease, releaseToAll, uniqueToken } from './key-rules.js';
import { boundedKeyLifetime } from './lifetime-rule.js';
import { LIVENESS, liveness } from './liveness.js';
import { messageIntegrity } from './message-integrity.js';
import { TraceIndex } from './trace-index.js';
import { WaitIndex } from './wait-index.js';

/** The rules by the property that they decide. */
const RULES: { readonly [P in PropertyId]?: (record: TraceIndex) => Finding[] } = {
  'mutual-exclusion': mutualExclusion,
  'quorum-backed': quorumBacked,
  'no-stale-write': noStaleWrite,
  acquisition,
  extension,
  continuity,
  'loss-notified': lossNotified,
  'owner-only-release': ownerOnlyRelease,
  'unique-token': uniqueToken,
  'one-lock-per-token': oneLockPerToken,
  'bounded-key-lifetime': boundedKeyLifetime,
  'release-to-all': releaseToAll,
  cleanup,
  fencing,
  'message-integrity': messageIntegrity,
};

/** Properties that a trace is checked for afterwards. */
export const OFFLINE: readonly PropertyId[] = [...(Object.keys(RULES) as readonly PropertyId[]), ...LIVENESS];

/** What a trace says of a run. */
interface Check {
  readonly findings: readonly Finding[];
  /** When nobody could acquire. */
  readonly outages: readonly Outage[];
}

/**
 * Decides from the whole trace of a run what was violated, and when, and when nobody could acquire. Made to be compared
 * with the monitors, which see events one by one: it shares no rule with them, sorts where they count, and looks at the
 * run when it is over.
 */
export function checkTrace(setup: Setup, trace: readonly TraceEvent[], endUs: number): Check {
  const record = new TraceIndex(setup, trace, endUs);
  const waits = new WaitIndex(record);
  const findings = [...Object.values(RULES).flatMap((rule) => rule(record)), ...liveness(waits)];
  return { findings, outages: outages(waits) };
}
