import { type Mark, type Picture, textWidth } from './marks.js';

/** One kind of mark, and what it stands for. */
export interface LegendItem {
  readonly text: string;
  /** Marks in a field of 22 × 16 pixels. */
  readonly marks: readonly Mark[];
}

const box = (role: Mark['role']): Mark => ({ shape: 'box', role, x: 1, y: 2, w: 20, h: 12, tone: 1 });
const line = (role: Mark['role'], head = false): Mark => ({
  shape: 'line',
  role,
  tone: 1,
  ...(head ? { head } : {}),
  points: [[1, head || role === 'lost' ? 3 : 2], head || role === 'lost' ? [20, 13] : [1, 14]],
});
const upright = (role: Mark['role']): Mark => ({
  shape: 'line',
  role,
  tone: 1,
  points: [
    [11, 1],
    [11, 15],
  ],
});
const glyph = (role: Mark['role'], name: 'dot' | 'ring' | 'cross' | 'diamond' | 'flag'): Mark => ({
  shape: 'glyph',
  role,
  glyph: name,
  x: 11,
  y: 8,
  tone: 1,
});

interface Entry extends LegendItem {
  readonly kind: string;
}

/** Marks of one kind look alike; what a node said is told by the glyph alone. */
function kindOf(mark: Mark): string {
  if (mark.shape !== 'glyph') return `${mark.shape} ${mark.role}`;
  return mark.role === 'write' ? 'write' : mark.glyph;
}

const entry = (text: string, sample: Mark): Entry => ({ text, marks: [sample], kind: kindOf(sample) });

const ENTRIES: readonly Entry[] = [
  entry('client believes that it holds the lock', box('belief')),
  entry('belief is over, not yet known', box('after')),
  entry('key on a node', box('key')),
  entry('too few nodes for a quorum', box('thin')),
  entry('forgotten there', upright('gone')),
  entry('request', line('request', true)),
  entry('answer', line('reply', true)),
  entry('yes', glyph('yes', 'dot')),
  entry('no', glyph('no', 'ring')),
  entry('lost', { ...glyph('lost', 'cross') }),
  entry('write', glyph('write', 'diamond')),
  entry('down', box('down')),
  entry('frozen', box('frozen')),
  entry('cut off', box('cut')),
  entry('answers with errors', box('refusing')),
  entry('expires, by the clock of the node', upright('expiry')),
  entry('would expire by true time', upright('ghost')),
  entry('violation', { ...box('band') }),
  entry('quiet time, drawn short', box('fold')),
];

/** What the marks of a picture stand for: kinds that are in it, and no others. */
export function legendOf(marks: readonly Mark[]): LegendItem[] {
  const kinds = new Set(marks.map(kindOf));
  return ENTRIES.filter(({ kind }) => kinds.has(kind));
}

/** A field of the legend, pixels. */
export const FIELD = { width: 22, height: 16 } as const;
const ROW = 19;

/** The legend as part of a picture, in as many rows as it takes. */
export function legendMarks(
  marks: readonly Mark[],
  left: number,
  y: number,
  width: number,
): Pick<Picture, 'marks' | 'height'> {
  let [x, row] = [left, 0];
  const drawn = legendOf(marks).flatMap(({ text, marks: sample }): Mark[] => {
    const wide = FIELD.width + 6 + textWidth(text, 10) + 14;
    if (x + wide > width && x > left) {
      x = left;
      row++;
    }
    const at = { x, y: y + row * ROW };
    x += wide;
    return [
      ...sample.map((mark) => shifted(mark, at.x, at.y)),
      { shape: 'text', role: 'legend', x: at.x + FIELD.width + 6, y: at.y + 12, text },
    ];
  });
  return { marks: drawn, height: (row + 1) * ROW };
}

function shifted(mark: Mark, dx: number, dy: number): Mark {
  if (mark.shape === 'line') return { ...mark, points: mark.points.map(([x, y]) => [x + dx, y + dy] as const) };
  return { ...mark, x: mark.x + dx, y: mark.y + dy };
}
