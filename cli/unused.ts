import type { Judgement } from '../properties/index.js';
import type { Fate, Schedule } from '../scenarios/index.js';
import { faultName, messageName } from '../search/shrinking/pieces.js';

/**
 * What of a schedule did not come about in its run, by its place there: locks and faults dated after the end, and fates
 * that matched no message. Its author may have meant something else.
 */
export function unusedIn({ clients, faults, fates }: Schedule, { run, unusedFates = [] }: Judgement): string[] {
  return [
    ...clients.flatMap(({ locks }, c) =>
      locks.flatMap(({ atUs }, i) =>
        atUs > run.endUs ? [`clients[${c}].locks[${i}]: acquire at ${atUs / 1000} ms`] : [],
      ),
    ),
    ...faults.flatMap((fault, i) => (fault.atUs > run.endUs ? [`faults[${i}]: ${faultName(fault)}`] : [])),
    ...unusedFates.map((fate) => `fates[${fates.indexOf(fate)}]: ${addressWords(fate)}`),
  ];
}

function addressWords(fate: Fate): string {
  const { lock = 0, attempt = 0, round = 0, send = 0 } = fate;
  return `${messageName(fate)} (lock ${lock}, attempt ${attempt}, round ${round}, send ${send})`;
}
