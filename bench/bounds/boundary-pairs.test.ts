import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Assumption } from '../../properties/assumptions.js';
import { parseSchedule } from '../../scenarios/index.js';
import { assumptionsTable, BOUNDARY_PAIRS, playPair } from './boundary-pairs.js';

describe('what the lock assumes', () => {
  it.each(BOUNDARY_PAIRS)('$assumption, $what: safe at $inside, broken at $outside', (pair) => {
    const { within, beyond } = playPair(pair);
    expect(within).toEqual({ assumptions: [], violated: [] });
    expect(beyond.assumptions).toEqual([pair.assumption]);
    expect(beyond.violated).toContain(pair.breaks);
  });

  it('has pairs for every assumption, and valid ones', () => {
    const all: Record<Assumption, true> = {
      'clock-drift': true,
      'clock-step': true,
      durability: true,
      counters: true,
      'durable-failover': true,
      'same-membership': true,
      'bounded-write-delay': true,
    };
    expect(new Set(BOUNDARY_PAIRS.map(({ assumption }) => assumption))).toEqual(new Set(Object.keys(all)));
    for (const { within, beyond } of BOUNDARY_PAIRS) {
      expect(parseSchedule(within)).toEqual(within);
      expect(parseSchedule(beyond)).toEqual(beyond);
    }
  });

  it('is in the results as it is played', () => {
    expect(readFileSync(new URL('../../docs/results.md', import.meta.url), 'utf8')).toContain(assumptionsTable());
  });
});
