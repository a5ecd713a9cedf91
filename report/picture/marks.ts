import type { Likelihood } from '../payload.js';

/** What a mark stands for: painters give each its looks. */
export type Role =
  | 'belief'
  | 'after'
  | 'key'
  | 'ghost'
  | 'expiry'
  | 'truth'
  | 'thin'
  | 'down'
  | 'frozen'
  | 'refusing'
  | 'cut'
  | 'request'
  | 'reply'
  | 'write'
  | 'lost'
  | 'yes'
  | 'no'
  | 'fault'
  | 'note'
  | 'bad'
  | 'good'
  | 'gone'
  | 'band'
  | 'rule'
  | 'fold'
  | 'grid'
  | 'tick'
  | 'name'
  | 'sub'
  | 'lane'
  | 'clock'
  | 'title'
  | 'text'
  | 'chance'
  | 'legend';

interface Common {
  readonly role: Role;
  /** Event to which it leads. */
  readonly seq?: number;
  /** Which token it is about, from 1: its colour, which its letter says as well. */
  readonly tone?: number;
  /** What it stands for, for a card: of what has a beginning and an end. */
  readonly words?: string;
  /** Stays at the left edge while a picture scrolls. */
  readonly pinned?: boolean;
  /** Has nothing to do with what went wrong. */
  readonly dim?: boolean;
}

/** Lengths are pixels from the top left of the picture. */
export interface BoxMark extends Common {
  readonly shape: 'box';
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

/** A line through points. */
export interface LineMark extends Common {
  readonly shape: 'line';
  readonly points: readonly (readonly [x: number, y: number])[];
  /** Ends in an arrow head. */
  readonly head?: boolean;
}

/** A text at a point. */
export interface TextMark extends Common {
  readonly shape: 'text';
  readonly x: number;
  readonly y: number;
  readonly text: string;
  readonly anchor?: 'middle' | 'end';
}

/** `cross`: lost; `dot`: granted; `ring`: refused; `diamond`: a write. */
export interface GlyphMark extends Common {
  readonly shape: 'glyph';
  readonly x: number;
  readonly y: number;
  readonly glyph: 'cross' | 'dot' | 'ring' | 'diamond' | 'flag';
}

/** Anything that is drawn. */
export type Mark = BoxMark | LineMark | TextMark | GlyphMark;

/** A strip of a picture that belongs to one process, resource, or to what is true. */
export interface Lane {
  readonly id: string;
  readonly y: number;
  readonly height: number;
}

/** What painters paint. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly marks: readonly Mark[];
  readonly lanes: readonly Lane[];
  /** Where an event lies, for a cursor. */
  readonly xOf: (seq: number) => number;
  /** The picture in one sentence, for those who do not see it. */
  readonly label: string;
  /** Width of what stays at the left edge while it scrolls, pixels. */
  readonly gutter: number;
  /** Retries that are drawn as one. */
  readonly folded: number;
}

/** How a run is looked at. */
export interface View {
  /** `folded` time (the default), `true` time, `order` of events, or the name of a process: time as it saw it. */
  readonly axis: string;
  /** Least width, pixels. */
  readonly width: number;
  /** How much wider than it has to be; 1 where nothing is said. Below it, marks move together until they fit `width`. */
  readonly zoom: number;
  /** Whether verdict, sentences and legend are part of the picture. */
  readonly heading: boolean;
  /** How likely a violation was as the run went on; nothing is drawn of it where it is left out. */
  readonly likelihood?: Likelihood | null;
  /** Mitigations with which the same schedule breaks nothing. */
  readonly prevented?: readonly string[];
  /** Draws every retry by itself. Default: many equal ones in a row are one, with their count. */
  readonly allRetries?: boolean;
}

/** How a picture is drawn that nobody can change. */
export const STATIC_VIEW: View = { axis: 'folded', width: 1120, zoom: 1, heading: true };

/** A text that is no wider than this, its middle left out. */
export function clipped(text: string, width: number, size: number): string {
  const most = Math.max(3, Math.floor(width / (size * 0.575)));
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 3);
  return `${text.slice(0, most - 1 - tail)}…${tail === 0 ? '' : text.slice(-tail)}`;
}

/** About how wide a text is, pixels. */
export function textWidth(text: string, size: number = 11): number {
  return text.length * size * 0.575;
}
