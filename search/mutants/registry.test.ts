import { describe, expect, it } from 'vitest';
import { SEARCHED } from '../../properties/property-lists.js';
import { faultModelFor, MUTANTS } from './registry.js';

/** What the theory lists; a letter stands for a variant. */
const LISTED = [
  1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 29, 30, 31, 32,
]
  .concat([33, 34, 35, 36, 37, 38, 40, 41, 43, 45, 48, 50, 51, 53, 54, 55, 56])
  .map((number) => `M${String(number).padStart(2, '0')}`);

/** Those that cannot be planted here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  M53: 'A node carries out a whole command as one event, so that no script is in pieces. In pieces its client sends it: M10.',
  M55: 'A bug of the monitors, planted in bench/oracle/group-h.slow.test.ts.',
  M56: 'A bug of the simulator, planted in bench/oracle/group-h.slow.test.ts and insertion-race.mock.test.ts.',
};

describe('the planted bugs', () => {
  it('have names of their own, a story and a monitored property', () => {
    expect(new Set(MUTANTS.map(({ id }) => id)).size).toBe(MUTANTS.length);
    for (const { id, story, instance, expect: property } of MUTANTS) {
      expect(id).toMatch(/^M\d\d[a-z]?$/);
      expect(story).toMatch(/\.$/);
      expect(instance).not.toBe('');
      expect(SEARCHED).toContain(property);
    }
  });

  it('are all that are listed, but for those that cannot be planted here', () => {
    const planted = new Set(MUTANTS.map(({ id }) => id.slice(0, 3)));
    expect(LISTED.filter((id) => !planted.has(id))).toEqual(Object.keys(ELSEWHERE));
    expect([...planted].filter((id) => !LISTED.includes(id))).toEqual([]);
  });

  it('change something', () => {
    for (const mutant of MUTANTS) expect(faultModelFor(mutant)).not.toEqual(faultModelFor(mutant, false));
  });
});
