import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ALIGNED, WORST_AT } from '../../search/safety-map/adversary.js';
import { greatestRateForExclusion, PROPORTIONAL_DRIFT, USUAL_DRIFT } from '../../search/safety-map/rates.js';
import { leastForExclusion } from './data-loss.js';
import { longestWay } from './effects.js';
import { greatestElapsedFromReply } from './extensions.js';
import { leastLostCounters, longestDelay } from './fencing.js';
import { leastRestartDelay } from './restart.js';
import { compare, type Unit } from './row.js';
import { greatestSplit } from './split.js';
import { greatestNodeStep } from './steps.js';
import { freeAfterSilence, longestWait } from './waiting.js';

const CASE = { ttlMs: 10_000, delayUs: 1000 };
const CLAIM_US = 9_898_000;
const WRITE = { ttlMs: 1_000, guardUs: 100_000 };
const PAUSE = { timeoutUs: 50_000, retryDelayUs: 200_000, retryJitterUs: 100_000, twoDown: false };

describe('a wrong formula is noticed', () => {
  const WRONG: readonly (readonly [string, Unit, number, number])[] = [
    [
      'the reply of the rival forgotten',
      'ppm',
      greatestRateForExclusion({ ...CASE, drift: USUAL_DRIFT }),
      (1e6 * (102_000 + 1_000)) / (20_000_000 - 102_000),
    ],
    [
      'the first order for the exact rate, D / 2 TTL',
      'ppm',
      greatestRateForExclusion({ ...CASE, delayUs: 0, drift: USUAL_DRIFT }),
      (1e6 * 102_000) / 20_000_000,
    ],
    [
      'a key taken to live its whole TTL where it is gone at its expiry',
      'ppm',
      greatestRateForExclusion({ ...CASE, delayUs: 0, drift: PROPORTIONAL_DRIFT, grain: WORST_AT }),
      (1e6 * 100_000) / (20_000_000 - 100_000),
    ],
    ['the millisecond by phase forgotten', 'µs', greatestNodeStep({ ...CASE, grain: ALIGNED }), 104_000],
    ['latency forgotten', 'µs', greatestNodeStep({ ...CASE, grain: ALIGNED }), 103_000],
    ['the same for the base of an extension', 'µs', greatestElapsedFromReply(CASE), 104_000],
    ['one microsecond and a half', 'µs', greatestElapsedFromReply(CASE), 105_001.5],
    [
      'the time of the crash forgotten',
      'µs',
      leastRestartDelay({ ...CASE, crashUs: 2_000 }),
      CLAIM_US - CASE.delayUs - CASE.delayUs,
    ],
    [
      "the node's rate forgotten",
      'µs',
      leastRestartDelay({ ...CASE, crashUs: 1_000, ppm: 5_000 }),
      CLAIM_US / 0.995 - 2_000,
    ],
    ['odd numbers of nodes taken for all', 'nodes', leastForExclusion({ nodes: 4, quorum: 3, votes: 3 }), 1],
    ['a strict condition for a split vote', 'nodes', greatestSplit(6, 2), 5],
    [
      'a step back that a slow clock does not stretch',
      'µs',
      freeAfterSilence({ ...CASE, setBackUs: 5_000_000, nodePpm: -10_000 }),
      1_000 + 10_001_000 / 0.99 + 5_000_000,
    ],
    ['counters beyond the quorum forgotten', 'nodes', leastLostCounters({ nodes: 5, quorum: 3, raised: 4 }), 1],
    [
      'counters that are read and raised in one round trip',
      'µs',
      longestDelay(1_000, { settings: { fencing: true } }),
      987_999 / 4,
    ],
    ['a guard that a fast clock does not shorten', 'µs', longestWay({ ...WRITE, ppm: 5_000 }), 99_999],
    ['a write that comes as the validity ends', 'µs', longestWay({ ...WRITE, ppm: 0 }), 100_001],
    ['a refused attempt that costs nothing', 'µs', longestWait({ ...CASE, ...PAUSE }), 300_000 + 2_000],
  ];
  it.each(WRONG)('%s', (quantity, unit, measured, computed) => {
    expect(compare({ quantity, parameters: '', unit, measured, computed }).agrees).toBe(false);
  });
});

describe('what measures', () => {
  const MEASURING =
    /^(adversary|bisect|watch|rates|steps|restart|fsync|data-loss|extensions|split|timeouts|waiting|fencing|effects)\.ts$/;
  const FORMULA = /computed|search\/bounds|assumptions|driftAllowanceUs|deadlineOf|isValid|toleratedDataLoss/;

  it('imports no formula', () => {
    const folders = [import.meta.dirname, join(import.meta.dirname, '../../search/safety-map')];
    const files = folders.flatMap((folder) =>
      readdirSync(folder).flatMap((name) => (MEASURING.test(name) ? join(folder, name) : [])),
    );
    expect(files).toHaveLength(14);
    for (const name of files) {
      const text = readFileSync(name, 'utf8');
      const imports = text.match(/^import [^;]*;/gms) ?? [];
      expect(
        imports.filter((line) => FORMULA.test(line)),
        name,
      ).toEqual([]);
    }
  });
});
