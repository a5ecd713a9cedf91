import type { PropertyId } from '../../scenarios/index.js';
import { calls, endlessHold, tries } from './call-rules.js';
import type { Finding } from './finding.js';
import { endless, failedRounds } from './progress-rules.js';
import { loneWait } from './wait-rules.js';
import type { Waits } from './waits.js';

/** What these rules decide. */
export const LIVENESS: readonly PropertyId[] = ['deadlock-free', 'fault-tolerance', 'progress'];

/** Who should have had a lock, whose calls should have returned, and who tried in vain for too long. */
export function liveness(waits: Waits): Finding[] {
  return [loneWait, calls, tries, endlessHold, failedRounds, endless].flatMap((rule) => rule(waits));
}
