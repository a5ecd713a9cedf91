import { ALIGNED, EXACT, type ExpiryModel, WORST, WORST_AT } from '../../search/safety-map/adversary.js';
import {
  allowanceUs,
  faultyForExclusion,
  greatestRate,
  type Margin,
  microsPerPpm,
  shortfallUs,
  worstShortfallUs,
} from '../../search/safety-map/computed.js';
import {
  greatestRateForExclusion,
  greatestRateForValidity,
  NO_DRIFT,
  PROPORTIONAL_DRIFT,
  type RateCase,
  ROUNDED_DRIFT,
  USUAL_DRIFT,
} from '../../search/safety-map/rates.js';
import { compare, type Row } from './row.js';

const TTLS_MS = [50, 100, 1_000, 8_000, 10_000, 30_000];
const LATENCY_TTLS_MS = [100, 1_000, 10_000, 30_000];
/** Round trips, µs. */
const LATENCIES_US = [0, 2_000, 10_000, 20_000, 100_000];
const NODES = 5;
const QUORUM = 3;
const PPM = 1_000_000;
/** Stretches durations so that a microsecond is worth less than a ppm, where the TTL is short. */
const FINE = 1000;

type Property = 'mutual-exclusion' | 'quorum-backed';

interface Column {
  readonly title: string;
  readonly change: Omit<Partial<RateCase>, 'ttlMs'>;
}

/** The columns of the table without latency. */
const COLUMNS: readonly Column[] = [
  { title: 'D = 1 % + 2 ms, g = 0', change: {} },
  { title: 'D = 1 % + 2 ms, Redis, worst phase', change: { grain: WORST } },
  { title: 'D = 1 % + 2 ms, Redis, phase 0', change: { grain: ALIGNED } },
  { title: 'D = 1 % + 2 ms, now >= when, worst phase', change: { grain: WORST_AT } },
  {
    title: 'D = 1 % + 2 ms, now >= when, worst phase, relative, ms stamps',
    change: { grain: WORST_AT, cutStamps: true },
  },
  { title: 'D = 1 % + 2 ms, whole ms, g = 0', change: { drift: ROUNDED_DRIFT } },
  { title: 'D = 1 %, g = 0', change: { drift: PROPORTIONAL_DRIFT } },
  { title: 'D = 1 %, now >= when, worst phase', change: { drift: PROPORTIONAL_DRIFT, grain: WORST_AT } },
  {
    title: 'D = 1 %, now >= when, worst phase, relative, ms stamps',
    change: { drift: PROPORTIONAL_DRIFT, grain: WORST_AT, cutStamps: true },
  },
  { title: 'only nodes, D = 1 % + 2 ms, g = 0', change: { erring: 'nodes' } },
  { title: 'only the client, D = 1 % + 2 ms, g = 0', change: { erring: 'client' } },
];

/** Largest tolerable errors of rate. */
export function rateRows(): Row[] {
  const of = (property: Property): Row[] => [...withLatency(property), ...withoutAllowance(property)];
  return [...withoutLatency(), ...of('mutual-exclusion'), ...byNumberOfNodes(), ...of('quorum-backed')];
}

function withoutLatency(): Row[] {
  return COLUMNS.flatMap(({ title, change }) =>
    TTLS_MS.flatMap((ttlMs) => {
      const wanted = { ttlMs, drift: USUAL_DRIFT, delayUs: 0, ...change };
      const row = rateRow('mutual-exclusion', wanted, title);
      // Neither Redis's millisecond nor rounding to whole milliseconds can be stretched along.
      const fine = ttlMs <= 100 && wanted.grain === undefined && !wanted.drift.driftWholeMs;
      return fine ? [row, rateRow('mutual-exclusion', { ...wanted, scale: FINE }, `${title}, fine`)] : [row];
    }),
  );
}

function withLatency(property: Property): Row[] {
  return LATENCY_TTLS_MS.flatMap((ttlMs) =>
    LATENCIES_US.map((roundTripUs) => {
      const scale = ttlMs <= 100 ? FINE : 1;
      const wanted = { ttlMs, drift: USUAL_DRIFT, delayUs: roundTripUs / 2, scale };
      const title = `D = 1 % + 2 ms, g = 0, 2d = ${roundTripUs / 1000} ms${scale === 1 ? '' : ', fine'}`;
      return rateRow(property, wanted, title);
    }),
  );
}

function withoutAllowance(property: Property): Row[] {
  return [0, 2_000, 20_000].map((roundTripUs) => {
    const wanted = { ttlMs: 10_000, drift: NO_DRIFT, delayUs: roundTripUs / 2 };
    return rateRow(property, wanted, `D = 0, g = 0, 2d = ${roundTripUs / 1000} ms`);
  });
}

/** With as many fast nodes as a rival needs it is the same boundary; with one fewer only the client's clock counts. */
function byNumberOfNodes(): Row[] {
  const cases: readonly (readonly [number, number])[] = [
    [3, 1],
    [4, 1],
    [4, 2],
    [5, 2],
    [5, 3],
  ];
  return cases.map(([votes, drifting]) => {
    const wanted = { ttlMs: 10_000, drift: USUAL_DRIFT, delayUs: 1_000, votes, drifting };
    const title = `D = 1 % + 2 ms, g = 0, 2d = 2 ms, ${drifting} of ${votes} voters fast`;
    return rateRow('mutual-exclusion', wanted, title);
  });
}

function rateRow(property: Property, wanted: RateCase, title: string): Row {
  const { ttlMs, grain = EXACT, votes = QUORUM, drifting = votes, scale = 1 } = wanted;
  const enough = drifting >= faultyForExclusion(NODES, QUORUM, votes);
  const erring = enough ? (wanted.erring ?? 'both') : 'client';
  const margin = marginOf(property, wanted, shortfallUs(grain), 999);
  const rate = greatestRate(margin, erring);
  const measure = property === 'quorum-backed' ? greatestRateForValidity : greatestRateForExclusion;
  return compare({
    quantity: `rate error, ${property}`,
    parameters: `TTL ${ttlMs} ms, ${title}`,
    unit: 'ppm',
    measured: measure(wanted),
    computed: PPM * rate,
    limit: PPM * greatestRate(marginOf(property, wanted, worstShortfallOf(grain), 1000), erring),
    ...(scale === 1 ? { unitUs: microsPerPpm(margin, rate, erring) } : {}),
  });
}

/** Phase 0 is a case of its own, not an approach to the worst one. */
function worstShortfallOf(grain: ExpiryModel): number {
  return grain === ALIGNED ? shortfallUs(grain) : worstShortfallUs(grain);
}

/** `cutUs` is what is cut off time stamps, if they are cut: q_c of a relative validity. */
function marginOf(property: Property, wanted: RateCase, shortfall: number, cutUs: number): Margin {
  const { ttlMs, drift, delayUs, cutStamps } = wanted;
  const ttlUs = 1000 * ttlMs;
  return {
    claimUs: ttlUs - allowanceUs(ttlUs, drift) + (cutStamps ? cutUs : 0),
    lifeUs: ttlUs - shortfall,
    slackUs: property === 'quorum-backed' ? delayUs : 2 * delayUs,
  };
}
