import { expect } from 'vitest';
import { setupOf, simulate } from '../../sim/index.js';
import { type Parts, schedule } from '../../sim/testing/schedule.js';
import { disagreementOn } from '../offline/agreement.js';
import { checkOffline } from '../offline/offline.js';

/** What the trace of a schedule says; the monitors have to say the same. */
export function findings(parts: Parts): string[] {
  const plan = schedule(parts);
  const { trace, endUs } = simulate(plan, { trace: true });
  expect(disagreementOn(plan)).toBeNull();
  return checkOffline(setupOf(plan), trace, endUs).findings.map(
    ({ property, atUs, untilUs, clients }) => `${property} ${clients.join('+')} ${atUs}..${untilUs}`,
  );
}
