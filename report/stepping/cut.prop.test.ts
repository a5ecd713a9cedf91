import { expect, it } from 'vitest';
import { parseSchedule, type Schedule } from '../../scenarios/index.js';
import { simulate } from '../../sim/index.js';
import { CATALOGUE } from '../testing/scenes.js';
import { cutAt } from './cut.js';

/** What happened, without what was only planned. */
function toldBy(schedule: Schedule, untilUs: number): string[] {
  const { trace } = simulate(schedule, { trace: true });
  return trace.filter(({ atUs }) => atUs <= untilUs).map(({ atUs, process, kind }) => `${atUs} ${process} ${kind}`);
}

it('a run that is cut has happened as it did until then, for every scenario, at several instants', () => {
  for (const { id, schedule } of CATALOGUE) {
    const instants = [...new Set(simulate(schedule, { trace: true }).trace.map(({ atUs }) => atUs))];
    const few = instants.filter((_, i) => i % Math.ceil(instants.length / 5) === 0);
    for (const atUs of few) {
      const cut = cutAt(schedule, atUs);
      expect({ id, atUs, told: toldBy(cut, atUs) }).toEqual({ id, atUs, told: toldBy(schedule, atUs) });
      expect(parseSchedule(JSON.parse(JSON.stringify(cut)))).toEqual(cut);
    }
  }
});
