import { describe, expect, it } from 'vitest';
import { REFERENCE } from '../../core/index.js';
import { check } from '../check.js';
import { MONITORED } from '../property-lists.js';
import { MUTANTS, weatherFor } from './registry.js';

const SOUND: readonly string[] = ['none', 'quorum'];

describe('the planted bugs', () => {
  it('have names of their own, a story and a monitored property', () => {
    expect(new Set(MUTANTS.map(({ id }) => id)).size).toBe(MUTANTS.length);
    for (const { id, story, instance, expect: property } of MUTANTS) {
      expect(id).toMatch(/^M\d\d[a-z]?$/);
      expect(story).toMatch(/\.$/);
      expect(instance).not.toBe('');
      expect(MONITORED).toContain(property);
    }
  });

  it('change something', () => {
    for (const mutant of MUTANTS) expect(weatherFor(mutant)).not.toEqual(weatherFor(mutant, false));
  });

  it('are all that is wrong in their weather', { timeout: 60_000 }, async () => {
    const weathers = new Map(MUTANTS.map((mutant) => [JSON.stringify(weatherFor(mutant, false)), mutant]));
    for (const mutant of weathers.values()) {
      const weather = weatherFor(mutant, false);
      expect(weather.policy).toEqual({ ...REFERENCE, ...mutant.base });
      expect(SOUND).toContain(weather.policy.fencing);
      const { counterexample } = await check({ weather, seed: mutant.id, runs: 1_000, properties: MONITORED });
      expect([mutant.id, counterexample]).toEqual([mutant.id, null]);
    }
  });
});
