import type { GlyphMark, LineMark, Mark, Picture } from '../picture/marks.js';
import { headOf, TONES } from '../picture/svg.js';

/** Colours of the picture's style sheet, read where they are in force. */
interface Palette {
  readonly of: (name: string) => string;
}

function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return {
    of: (name) => {
      const value = known.get(name) ?? style.getPropertyValue(`--${name}`).trim();
      known.set(name, value);
      return value;
    },
  };
}

/** Paints what lies between two edges onto a canvas that is as wide as they are apart: for more marks than a page of SVG can carry. */
export function paint(
  canvas: HTMLCanvasElement,
  picture: Picture,
  marks: readonly Mark[],
  left: number,
  width: number,
): void {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(picture.height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${picture.height}px`;
  const pen = canvas.getContext('2d');
  if (pen === null) return;
  const palette = paletteOf(canvas);
  pen.scale(ratio, ratio);
  pen.fillStyle = palette.of('paper');
  pen.fillRect(0, 0, width, picture.height);
  pen.translate(-left, 0);
  for (const mark of marks) paintMark(pen, mark, palette);
}

function paintMark(pen: CanvasRenderingContext2D, mark: Mark, palette: Palette): void {
  const tone = mark.tone === undefined ? palette.of('soft') : palette.of(`t${mark.tone % TONES}`);
  const isBad = mark.role === 'rule' || mark.role === 'lost' || mark.role === 'bad';
  const color = isBad ? palette.of('bad') : tone;
  switch (mark.shape) {
    case 'box':
      paintBox(pen, mark, color, palette);
      break;
    case 'line':
      pen.strokeStyle = mark.role === 'lane' || mark.role === 'grid' ? palette.of('line') : color;
      pen.globalAlpha = (mark.role === 'reply' ? 0.4 : 0.8) * faded(mark);
      pen.lineWidth = mark.role === 'expiry' ? 3 : 1;
      pen.beginPath();
      for (const [x, y] of mark.points) pen.lineTo(x, y);
      pen.stroke();
      if (mark.head === true) paintHead(pen, mark, color);
      pen.globalAlpha = 1;
      break;
    case 'text': {
      const inBar = mark.role === 'key' || mark.role === 'truth';
      const size = mark.role === 'name' ? 13 : 10.5;
      pen.font = `${mark.role === 'name' ? 'bold ' : ''}${size}px system-ui, sans-serif`;
      pen.fillStyle = inBar ? palette.of('on') : mark.role === 'note' || isBad ? color : palette.of('ink');
      pen.textAlign = mark.anchor === 'middle' ? 'center' : mark.anchor === 'end' ? 'right' : 'left';
      pen.fillText(mark.text, mark.x, mark.y);
      break;
    }
    case 'glyph':
      paintGlyph(pen, mark, color, palette);
  }
}

/** What did not lead to what went wrong. */
function faded({ dim }: Mark): number {
  return dim === true ? 0.3 : 1;
}

function paintGlyph(pen: CanvasRenderingContext2D, mark: GlyphMark, color: string, palette: Palette): void {
  const { x, y, glyph } = mark;
  pen.fillStyle = glyph === 'ring' ? palette.of('paper') : color;
  pen.strokeStyle = mark.role === 'fault' ? palette.of('ink') : color;
  pen.lineWidth = 1.5;
  pen.globalAlpha = faded(mark);
  pen.beginPath();
  if (glyph === 'dot' || glyph === 'ring') pen.arc(x, y, 3, 0, Math.PI * 2);
  else
    for (const [[fromX, fromY], ...rest] of STROKES[glyph]) {
      pen.moveTo(x + fromX, y + fromY);
      for (const [dx, dy] of rest) pen.lineTo(x + dx, y + dy);
    }
  if (glyph !== 'cross') pen.fill();
  pen.stroke();
  pen.globalAlpha = 1;
}

type Offset = readonly [dx: number, dy: number];

/** Other glyphs as lines, pixels from their place. */
const STROKES: Readonly<
  Record<Exclude<GlyphMark['glyph'], 'dot' | 'ring'>, readonly (readonly [Offset, ...Offset[]])[]>
> = {
  cross: [
    [
      [-3, -3],
      [3, 3],
    ],
    [
      [3, -3],
      [-3, 3],
    ],
  ],
  diamond: [
    [
      [0, -6],
      [6, 0],
      [0, 6],
      [-6, 0],
      [0, -6],
    ],
  ],
  flag: [
    [
      [0, -2],
      [0, 24],
    ],
  ],
};

function paintHead(pen: CanvasRenderingContext2D, mark: LineMark, color: string): void {
  pen.fillStyle = color;
  pen.beginPath();
  for (const [x, y] of headOf(mark)) pen.lineTo(x, y);
  pen.fill();
}

function paintBox(
  pen: CanvasRenderingContext2D,
  mark: Extract<Mark, { shape: 'box' }>,
  color: string,
  palette: Palette,
): void {
  const { x, y, w, h, role } = mark;
  const outline = role === 'thin' || role === 'after' || role === 'ghost' || role === 'cut' || role === 'refusing';
  pen.fillStyle = role === 'band' ? palette.of('veil') : role === 'fold' ? palette.of('line') : color;
  pen.strokeStyle = color;
  pen.lineWidth = role === 'belief' ? 2 : 1;
  pen.globalAlpha = role === 'belief' ? 0.16 : role === 'fold' || role === 'down' || role === 'frozen' ? 0.4 : 1;
  if (!outline) pen.fillRect(x, y, w, h);
  pen.globalAlpha = 1;
  if (outline || role === 'belief' || role === 'down' || role === 'frozen') pen.strokeRect(x, y, w, h);
}
