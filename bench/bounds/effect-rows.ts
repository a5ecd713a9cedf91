import type { PolicyChange } from '../../deviations/index.js';
import {
  allowanceUs,
  latestEffectUs,
  longestDelayUs,
  lostCounters,
  powerWindowUs,
} from '../../search/safety-map/computed.js';
import { ROUNDED_DRIFT } from '../../search/safety-map/rates.js';
import { type EffectCase, longestPause, longestWay } from './effects.js';
import { COUNTER_SETTING, type CounterCase, leastLostCounters, longestDelay, longestUnsafeCounter } from './fencing.js';
import { compare, type Row } from './row.js';

const QUANTUM_US = 1;
const TTLS_MS = [1_000, 10_000];

/** Tokens: how many counters may be lost, for how long, and what they cost in time. */
export function fencingRows(): Row[] {
  return [...counterRows(), ...diskRows(), ...delayRows()];
}

const COUNTER_CASES: readonly CounterCase[] = [1, 2, 3, 4, 5, 6, 7].flatMap((nodes) => {
  const quorum = Math.floor(nodes / 2) + 1;
  return Array.from({ length: nodes - quorum + 1 }, (_, i) => ({ nodes, quorum, raised: quorum + i }));
});

function counterRows(): Row[] {
  return COUNTER_CASES.map((wanted) =>
    compare({
      quantity: 'lost counters that bring a token again',
      parameters: `N = ${wanted.nodes}, q = ${wanted.quorum}, ${wanted.raised} raised`,
      unit: 'nodes',
      measured: leastLostCounters(wanted),
      computed: lostCounters(wanted.nodes, wanted.quorum, wanted.raised),
    }),
  );
}

function diskRows(): Row[] {
  return [0, 20_000].flatMap((takesUs) =>
    [1, 250_000, 999_000].map((phaseUs) =>
      compare({
        quantity: 'last harmful power loss after a raise',
        parameters: `fsync every 1 s, takes ${takesUs / 1000} ms, raise ${phaseUs / 1000} ms after its start`,
        unit: 'µs',
        measured: longestUnsafeCounter({ phaseUs, takesUs }),
        computed: powerWindowUs(COUNTER_SETTING.everyUs, phaseUs, takesUs),
      }),
    ),
  );
}

const KINDS: readonly { readonly fencing: string; readonly policy: PolicyChange; readonly roundTrips: number }[] = [
  { fencing: 'none', policy: {}, roundTrips: 1 },
  {
    fencing: 'piggybacked-read',
    policy: { settings: { fencing: true }, deviations: ['fence-from-votes'] },
    roundTrips: 2,
  },
  { fencing: 'quorum', policy: { settings: { fencing: true } }, roundTrips: 3 },
];

function delayRows(): Row[] {
  return TTLS_MS.flatMap((ttlMs) =>
    KINDS.map(({ fencing, policy, roundTrips }) =>
      compare({
        quantity: 'longest one-way delay with which a lock is had',
        parameters: `TTL ${ttlMs} ms, fencing ${fencing}`,
        unit: 'µs',
        measured: longestDelay(ttlMs, policy),
        computed: longestDelayUs(1000 * ttlMs - allowanceUs(1000 * ttlMs, ROUNDED_DRIFT), roundTrips, QUANTUM_US),
      }),
    ),
  );
}

const EFFECT_CASES: readonly EffectCase[] = TTLS_MS.flatMap((ttlMs) =>
  [1, 1_000, 100_000, 500_000].flatMap((guardUs) => [0, 5_000, -5_000].map((ppm) => ({ ttlMs, guardUs, ppm }))),
);

/** Writes that ask for a validity before they are sent. */
export function effectRows(): Row[] {
  const row = (quantity: string, wanted: EffectCase, measured: number): Row =>
    compare({
      quantity,
      parameters: `TTL ${wanted.ttlMs} ms, asks for ${wanted.guardUs / 1000} ms, ${clockWords(wanted.ppm)}`,
      unit: 'µs',
      measured,
      computed: latestEffectUs(wanted.guardUs, wanted.ppm / 1_000_000, QUANTUM_US),
    });
  return [
    ...EFFECT_CASES.map((wanted) => row('longest harmless way of a write', wanted, longestWay(wanted))),
    ...EFFECT_CASES.filter(({ ppm, guardUs }) => ppm === 0 && guardUs > 1).map((wanted) =>
      row('longest harmless pause before a write', wanted, longestPause(wanted)),
    ),
  ];
}

function clockWords(ppm: number): string {
  return ppm === 0 ? 'right clock' : `clock ${Math.abs(ppm) / 10_000} % ${ppm > 0 ? 'fast' : 'slow'}`;
}
