import type { Likelihood } from '../payload.js';
import { BAR, type LanePlan } from './lane.js';
import { type Mark, textWidth } from './marks.js';
import { Notes } from './rows.js';
import type { Scale } from './scale.js';

const HEIGHT = 2 * BAR;

/** How many of the futures violate, from each instant on, and from where on none escapes. */
export function chanceLane({ futures, points }: Likelihood, scale: Scale): LanePlan {
  const notes = new Notes(scale.right);
  const last = points.findLastIndex(({ violating }) => violating < futures) + 1;
  const decided = points[last];
  if (decided !== undefined) {
    const x = scale.x(decided.atUs, decided.seq) + 2;
    notes.add({ x, text: 'point of no return', role: 'bad', seq: decided.seq });
  }
  return {
    id: 'chance',
    name: 'chance',
    sub: 'of this',
    rows: 2,
    notes,
    clock: false,
    bars: (y) => [...line(points, futures, scale, y), ...shares(points, futures, scale, y)],
  };
}

function line(points: Likelihood['points'], futures: number, scale: Scale, y: number): Mark[] {
  const steps: (readonly [number, number])[] = [];
  for (const { atUs, seq, violating } of points) {
    const x = scale.x(atUs, seq);
    const before = steps.at(-1);
    if (before !== undefined) steps.push([x, before[1]]);
    steps.push([x, y + HEIGHT - (violating / futures) * HEIGHT]);
  }
  const [first, end] = [steps[0], steps.at(-1)];
  if (first === undefined || end === undefined) return [];
  const floor: Mark = {
    shape: 'line',
    role: 'grid',
    points: [
      [first[0], y + HEIGHT],
      [end[0], y + HEIGHT],
    ],
  };
  return [floor, { shape: 'line', role: 'chance', points: steps }];
}

function shares(points: Likelihood['points'], futures: number, scale: Scale, y: number): Mark[] {
  let free = Number.NEGATIVE_INFINITY;
  return points.flatMap(({ atUs, seq, violating }, index): Mark[] => {
    if (index > 0 && points[index - 1]?.violating === violating) return [];
    const text = `${Math.round((100 * violating) / futures)} %`;
    const x = scale.x(atUs, seq) + 4;
    if (x < free) return [];
    free = x + textWidth(text, 10) + 4;
    const top = y + HEIGHT - (violating / futures) * HEIGHT;
    return [{ shape: 'text', role: 'note', x, y: top < y + 12 ? top + 11 : top - 3, text, seq }];
  });
}
