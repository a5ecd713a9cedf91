import type { Mark } from '../picture/marks.js';

/** From where to where a mark reaches, pixels. */
function extent(mark: Mark): [number, number] {
  switch (mark.shape) {
    case 'box':
      return [mark.x, mark.x + mark.w];
    case 'line': {
      let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
      for (const [x] of mark.points) {
        if (x < low) low = x;
        if (x > high) high = x;
      }
      return [low, high];
    }
    case 'text':
      return [mark.x - 160, mark.x + 260];
    case 'glyph':
      return [mark.x - 8, mark.x + 8];
  }
}

/** Pixels of a picture whose marks are found together. */
const PART = 1024;
/** What reaches over more parts than this is looked at every time. */
const MOST_PARTS = 4;

/** The marks of a picture by where they lie, so that looking at a part of it costs as much as that part has. */
export class MarkIndex {
  private readonly marks: readonly Mark[];
  private readonly parts = new Map<number, number[]>();
  private readonly wide: number[] = [];

  constructor(marks: readonly Mark[]) {
    this.marks = marks;
    for (const [index, mark] of marks.entries()) {
      const [low, high] = extent(mark).map((x) => Math.floor(x / PART)) as [number, number];
      if (high - low >= MOST_PARTS) this.wide.push(index);
      else for (let part = low; part <= high; part++) this.listOf(part).push(index);
    }
  }

  private listOf(part: number): number[] {
    const known = this.parts.get(part);
    if (known !== undefined) return known;
    const made: number[] = [];
    this.parts.set(part, made);
    return made;
  }

  /** What can be seen between two edges, in the order in which it is painted. */
  between(from: number, to: number): Mark[] {
    const found = [...this.wide];
    for (let part = Math.floor(from / PART); part <= Math.floor(to / PART); part++) {
      for (const index of this.parts.get(part) ?? []) found.push(index);
    }
    found.sort((a, b) => a - b);
    return found.flatMap((index, i) => {
      const mark = this.marks[index];
      if (mark === undefined || found[i - 1] === index) return [];
      const [low, high] = extent(mark);
      return high >= from && low <= to ? [mark] : [];
    });
  }
}

/** Marks for each pixel of width; more cannot be told apart, and take long to paint. */
const MOST_DENSE = 3;
const WIDEST_CELL = 64;

/** Where many marks of one kind lie in one place, leaves one to stand for them. What can be told apart stays as it is. */
export function thinned(marks: readonly Mark[], width: number): readonly Mark[] {
  let left = marks;
  for (let cell = 1; left.length > width * MOST_DENSE && cell <= WIDEST_CELL; cell *= 2) left = inCells(left, cell);
  return left;
}

function inCells(marks: readonly Mark[], cell: number): Mark[] {
  const taken = new Set<string>();
  return marks.filter((mark) => {
    const place = placeOf(mark, cell);
    if (place === null) return true;
    if (taken.has(place)) return false;
    taken.add(place);
    return true;
  });
}

/** Marks with the same place look alike; `null` for one that no other can stand for. */
function placeOf(mark: Mark, cell: number): string | null {
  const { shape, role } = mark;
  switch (shape) {
    case 'text':
      return null;
    case 'glyph':
      return role === 'fault' ? null : `${role} ${Math.floor(mark.x / cell)} ${mark.y}`;
    case 'box':
      return mark.w > 2 * cell + 3 || role === 'band' ? null : `${role} ${Math.floor(mark.x / cell)} ${mark.y}`;
    case 'line': {
      const [first, second] = mark.points;
      if (mark.points.length !== 2 || first === undefined || second === undefined || role === 'rule') return null;
      if (Math.abs(second[0] - first[0]) > 2 * cell + 3) return null;
      return `${role} ${Math.floor(first[0] / cell)} ${first[1]} ${second[1]}`;
    }
  }
}
