import { expect, it } from 'vitest';
import { slewLines } from './lines.js';
import { parseSystem } from './parse-system.js';
import { assumptionsOf } from './words.js';

it('says of clocks what chrony has to be set to for their error, as its lines do', () => {
  for (const [drift, line] of [
    ['0.05%', 'maxslewrate 400'],
    ['0.2%', 'maxslewrate 1600'],
  ] as const) {
    const system = parseSystem({ nodes: { count: 3 }, clocks: { drift } });
    expect(assumptionsOf(system).find(({ about }) => about === 'clocks')?.says).toContain(`"${line}"`);
    expect(slewLines(system.clocks.driftPpm).lines).toContain(line);
  }
});
