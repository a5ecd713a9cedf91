import type { PropertyId } from '../../scenarios/index.js';
import { type Parts, schedule } from '../../sim/testing/schedule.js';
import { judge } from '../judge.js';

/** Who broke a property, and when: `c1 c2 5000`. */
export function found(property: PropertyId, parts: Parts = {}): string[] {
  return judge(schedule(parts), [property])
    .violations.filter((it) => it.property === property)
    .map(({ clients, atUs }) => `${clients.join(' ')} ${atUs}`);
}
