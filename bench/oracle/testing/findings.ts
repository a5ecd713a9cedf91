import { expect } from 'vitest';
import { type Parts, schedule } from '../../../sim/testing/schedule.js';
import { comparedOn } from '../agreement.js';

/** What the trace of a schedule says; the monitors have to say the same. */
export function findings(parts: Parts): string[] {
  const compared = comparedOn(schedule(parts));
  expect(compared.disagreement).toBeNull();
  return compared.findings.map(
    ({ property, atUs, untilUs, clients }) => `${property} ${clients.join('+')} ${atUs}..${untilUs}`,
  );
}
