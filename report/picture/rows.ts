import { type Mark, type Role, textWidth } from './marks.js';
import { Slots } from './scale.js';

/** A word that wants a place in a lane, near an instant. */
export interface Note {
  readonly x: number;
  readonly text: string;
  readonly role: Role;
  readonly seq: number;
  readonly tone?: number;
}

const NOTE_HEIGHT = 13;
const NOTE_SIZE = 10;
const MOST_ROWS = 4;

/** Puts words into as few rows as they need; what finds no place is left to the table of events. */
export class Notes {
  private readonly rows: Slots[] = [];
  private readonly placed: { readonly note: Note; readonly row: number; readonly x: number }[] = [];
  private readonly right: number;

  constructor(right: number) {
    this.right = right;
  }

  add(note: Note): void {
    const width = textWidth(note.text, NOTE_SIZE) + 6;
    // Near the end they lie left of their instant rather than outside of the picture.
    const x = Math.max(0, Math.min(note.x, this.right - width));
    for (let row = 0; row < MOST_ROWS; row++) {
      const slots = this.rows[row] ?? new Slots();
      this.rows[row] = slots;
      if (!slots.take(x, x + width)) continue;
      this.placed.push({ note, row, x });
      return;
    }
  }

  get height(): number {
    return this.rows.length * NOTE_HEIGHT;
  }

  marks(y: number): Mark[] {
    return this.placed.map(({ note, row, x }) => ({
      shape: 'text',
      role: note.role,
      seq: note.seq,
      x,
      y: y + row * NOTE_HEIGHT + NOTE_HEIGHT - 3,
      text: note.text,
      ...(note.tone === undefined ? {} : { tone: note.tone }),
    }));
  }
}

/** Bars that would lie over each other get rows of their own; returns the row of each, and how many there are. */
export function stacked(bars: readonly { readonly fromUs: number; readonly toUs: number }[]): {
  readonly rowOf: readonly number[];
  readonly rows: number;
} {
  const ends: number[] = [];
  const rowOf = bars.map(({ fromUs, toUs }) => {
    const free = ends.findIndex((end) => end <= fromUs);
    const row = free < 0 ? ends.length : free;
    ends[row] = toUs;
    return row;
  });
  return { rowOf, rows: Math.max(1, ends.length) };
}
