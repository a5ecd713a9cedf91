import type { Outage } from '../../properties/monitors/outage.js';
import type { PropertyId } from '../../scenarios/index.js';
import type { Setup, TraceEvent } from '../../sim/index.js';
import { outages } from './availability.js';
import { actionInBelief, mutualExclusion, validity } from './belief-rules.js';
import { acquisition, continuity, extension, lostLock } from './claim-rules.js';
import { conservation } from './conservation.js';
import { fencing } from './fencing-rules.js';
import type { Finding } from './finding.js';
import { cleanup, oneLockPerToken, releaseOwn, releaseQuorum, tokenUnique } from './key-rules.js';
import { boundedKeyLifetime } from './lifetime-rule.js';
import { LIVENESS, liveness } from './liveness.js';
import { TraceIndex } from './trace-index.js';
import { WaitIndex } from './wait-index.js';

/** The rules by the property that they decide. */
const RULES: { readonly [P in PropertyId]?: (record: TraceIndex) => Finding[] } = {
  'mutual-exclusion': mutualExclusion,
  validity,
  'action-in-belief': actionInBelief,
  acquisition,
  extension,
  continuity,
  'lost-lock': lostLock,
  'release-own': releaseOwn,
  'token-unique': tokenUnique,
  'one-lock-per-token': oneLockPerToken,
  'bounded-key-lifetime': boundedKeyLifetime,
  'release-quorum': releaseQuorum,
  cleanup,
  fencing,
  conservation,
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
