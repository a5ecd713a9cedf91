import type { Mark } from '../picture/marks.js';
import { textWidth } from '../picture/marks.js';

const NEAR = 8;
const NEAR_LINE = 5;

/** What lies at a point: small things before large ones, so that a message over a bar can be reached. */
export function markAt(marks: readonly Mark[], x: number, y: number): Mark | null {
  let best: Mark | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const mark of marks) {
    if (mark.seq === undefined) continue;
    const cost = costOf(mark, x, y);
    if (cost >= least) continue;
    least = cost;
    best = mark;
  }
  return best;
}

/** The less, the nearer and the smaller it is. */
function costOf(mark: Mark, x: number, y: number): number {
  switch (mark.shape) {
    case 'glyph': {
      const distance = Math.hypot(mark.x - x, mark.y - y);
      return distance <= NEAR ? distance : Number.POSITIVE_INFINITY;
    }
    case 'line': {
      const distance = distanceTo(mark.points, x, y);
      return distance <= NEAR_LINE ? 10 + distance : Number.POSITIVE_INFINITY;
    }
    case 'text': {
      const size = textWidth(mark.text);
      const left = mark.anchor === 'middle' ? mark.x - size / 2 : mark.x;
      return x >= left && x <= left + size && y >= mark.y - 12 && y <= mark.y + 4 ? 20 : Number.POSITIVE_INFINITY;
    }
    case 'box': {
      const isIn = x >= mark.x - 1 && x <= mark.x + mark.w + 1 && y >= mark.y && y <= mark.y + mark.h;
      return isIn ? 30 + mark.w / 1e6 : Number.POSITIVE_INFINITY;
    }
  }
}

function distanceTo(points: readonly (readonly [number, number])[], x: number, y: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 1; i < points.length; i++) {
    const [[x1, y1] = [0, 0], [x2, y2] = [0, 0]] = [points[i - 1], points[i]];
    const length = (x2 - x1) ** 2 + (y2 - y1) ** 2;
    const along = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / length));
    least = Math.min(least, Math.hypot(x1 + along * (x2 - x1) - x, y1 + along * (y2 - y1) - y));
  }
  return least;
}
