import { allowanceUs, longestTimeoutUs } from '../../search/safety-map/computed.js';
import { ROUNDED_DRIFT } from '../../search/safety-map/rates.js';
import { compare, type Row } from './row.js';
import { greatestTimeout, type TimeoutCase } from './timeouts.js';

const QUORUM = 3;
const CASES: readonly Omit<TimeoutCase, 'ttlMs' | 'sending'>[] = [
  { delayUs: 1_000, down: 1 },
  { delayUs: 1_000, down: 2 },
  { delayUs: 0, down: 2 },
  { delayUs: 1_000, down: 2, minValidityUs: 20_000 },
];

/** Node time-outs that add up where nodes are asked one after the other. */
export function timeoutRows(): Row[] {
  return [100, 200, 500, 1_000].flatMap((ttlMs) =>
    CASES.map((wanted) => row({ ...wanted, ttlMs, sending: 'sequential' })),
  );
}

function row(wanted: TimeoutCase): Row {
  const { ttlMs, delayUs, down, minValidityUs = 0 } = wanted;
  const ttlUs = 1000 * ttlMs;
  const least = minValidityUs === 0 ? '' : `, at least ${minValidityUs / 1000} ms left`;
  const claimUs = ttlUs - allowanceUs(ttlUs, ROUNDED_DRIFT);
  return compare({
    quantity: 'longest node time-out, one node after the other',
    parameters: `TTL ${ttlMs} ms, d = ${delayUs / 1000} ms, ${down} of 5 nodes down${least}`,
    unit: 'µs',
    measured: greatestTimeout(wanted),
    computed: longestTimeoutUs(claimUs, minValidityUs, down, QUORUM * 2 * delayUs),
  });
}
