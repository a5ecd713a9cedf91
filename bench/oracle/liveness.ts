import type { PropertyId } from '../../scenarios/index.js';
import { calls, endlessHold, tries } from './call-rules.js';
import type { Finding } from './finding.js';
import { endless, failedRounds } from './progress-rules.js';
import type { WaitIndex } from './wait-index.js';
import { loneWait } from './wait-rules.js';

/** What these rules decide. */
export const LIVENESS: readonly PropertyId[] = ['deadlock-free', 'fault-tolerance', 'progress'];

/** Who should have had a lock, whose calls should have returned, and who tried in vain for too long. */
export function liveness(waits: WaitIndex): Finding[] {
  return [loneWait, calls, tries, endlessHold, failedRounds, endless].flatMap((rule) => rule(waits));
}
