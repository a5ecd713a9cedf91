import { expect, it } from 'vitest';
import { judge } from '../properties/judge.js';
import { hazardsOf } from './hazards.js';
import { lateReleaseOf } from './late-release.js';
import { parseSystem } from './parse-system.js';
import type { System } from './system.js';

function systemOf(library: string, nodes: number, reordering: boolean): System {
  return parseSystem({ nodes: { count: nodes, persistence: 'always' }, network: { reordering }, client: { library } });
}

it.each([1, 2, 3, 5, 7])('a late release breaks redsync on %i nodes where connections reorder', (nodes) => {
  const found = lateReleaseOf(systemOf('redsync-4', nodes, true));
  expect(found).not.toBeNull();
  if (found === null) return;
  const { violations } = judge(found.schedule);
  expect(violations.map(({ property }) => property)).toContain('mutual-exclusion');
  // Nothing is later than described but the release, which outlives the 500 ms in which redsync waits for its answer.
  const later = (found.schedule.fates ?? []).filter(({ delayUs = 0 }) => delayUs > 10_000);
  expect(later.length).toBeGreaterThan(0);
  for (const fate of later) expect(fate).toMatchObject({ operation: 'release', delayUs: found.lateUs });
  expect(found.lateUs).toBeGreaterThan(550_000);
  expect(found.lateUs).toBeLessThan(600_000);
});

it.each([
  ['redsync-4', 5, false],
  ['reference', 5, true],
])('%s on %i nodes withstands it, reordering: %s', (library, nodes, reordering) => {
  const system = systemOf(library, nodes, reordering);
  expect(lateReleaseOf(system)).toBeNull();
  expect(hazardsOf(system).find(({ id }) => id === 'client')?.holds).toBe(true);
});
