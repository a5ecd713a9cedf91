import { escaped } from '../../text/escaped.js';
import { lookCss } from '../../text/look.js';
import type { BoxMark, GlyphMark, LineMark, Mark, Picture, TextMark } from './marks.js';
import { PICTURE_CSS } from './style.js';

/** Colours repeat after as many tokens. */
export const TONES = 6;

/** Paints a picture as a file of its own. */
export function svgFile(picture: Picture): string {
  const { width, height, label } = picture;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" class="picture" width="${round(width)}" height="${round(height)}" ` +
    `viewBox="0 0 ${round(width)} ${round(height)}" role="img" aria-label="${escaped(label)}">` +
    `<style>${lookCss('.picture')}${PICTURE_CSS}</style>${SVG_DEFS}<rect class="paper" width="100%" height="100%"/>\n` +
    `${picture.marks.map(svgOf).join('\n')}\n</svg>\n`
  );
}

/** Patterns that marks refer to. */
export const SVG_DEFS: string = `<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="under" width="6" height="6"/><path class="stripe" d="M0 0V6"/></pattern><pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse"><circle class="speck" cx="3" cy="3" r="1.2"/></pattern><pattern id="fold" width="8" height="8" patternUnits="userSpaceOnUse"><path class="crease" d="M2 0L6 4L2 8"/></pattern></defs>`;

/** One mark. */
export function svgOf(mark: Mark): string {
  switch (mark.shape) {
    case 'box':
      return boxSvg(mark);
    case 'line':
      return lineSvg(mark);
    case 'text':
      return textSvg(mark);
    case 'glyph':
      return glyphSvg(mark);
  }
}

function attributes(mark: Mark, shape: string): string {
  const tone = mark.tone === undefined ? '' : ` t${mark.tone % TONES}`;
  const seq = mark.seq === undefined ? '' : ` data-seq="${mark.seq}"`;
  const dim = mark.dim === true ? ' dim' : '';
  return `class="${shape} ${mark.role}${tone}${dim}"${seq}`;
}

function boxSvg(mark: BoxMark): string {
  const { x, y, w, h } = mark;
  const rounded = mark.role === 'band' || mark.role === 'fold' ? '' : ' rx="3"';
  return `<rect ${attributes(mark, 'b')} x="${round(x)}" y="${round(y)}" width="${round(w)}" height="${round(h)}"${rounded}/>`;
}

function lineSvg(mark: LineMark): string {
  const path = mark.points.map(([x, y], i) => `${i === 0 ? 'M' : 'L'}${round(x)} ${round(y)}`).join('');
  const head = mark.head === true ? headPath(mark) : '';
  return `<path ${attributes(mark, 'l')} d="${path}"/>${head}`;
}

const HEAD = 6;

/** The head of an arrow: its point and its two other corners; none where the line is shorter than that. */
export function headOf({ points }: LineMark): readonly (readonly [x: number, y: number])[] {
  const [[x1, y1] = [0, 0], [x2, y2] = [0, 0]] = points.slice(-2);
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < HEAD) return [];
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  const corner = (side: number) => [x2 - dx * HEAD - dy * side, y2 - dy * HEAD + dx * side] as const;
  return [[x2, y2], corner(2.6), corner(-2.6)];
}

/** As a shape of its own: markers do not take the colour of their line everywhere. */
function headPath(mark: LineMark): string {
  const points = headOf(mark);
  if (points.length === 0) return '';
  return `<path ${attributes(mark, 'h')} d="M${points.map(([x, y]) => `${round(x)} ${round(y)}`).join('L')}z"/>`;
}

function textSvg(mark: TextMark): string {
  const anchor = mark.anchor === undefined ? '' : ` text-anchor="${mark.anchor}"`;
  return `<text ${attributes(mark, 'x')} x="${round(mark.x)}" y="${round(mark.y)}"${anchor}>${escaped(mark.text)}</text>`;
}

function glyphSvg(mark: GlyphMark): string {
  const { x, y } = mark;
  const at = (dx: number, dy: number): string => `${round(x + dx)} ${round(y + dy)}`;
  const named = attributes(mark, 'g');
  switch (mark.glyph) {
    case 'dot':
    case 'ring':
      return `<circle ${named} cx="${round(x)}" cy="${round(y)}" r="3.6"/>`;
    case 'cross':
      return `<path ${named} d="M${at(-4, -4)}L${at(4, 4)}M${at(4, -4)}L${at(-4, 4)}"/>`;
    case 'diamond':
      return `<path ${named} d="M${at(0, -6)}L${at(6, 0)}L${at(0, 6)}L${at(-6, 0)}z"/>`;
    case 'flag':
      return `<path ${named} d="M${at(0, -2)}V${round(y + 24)}"/>`;
  }
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}
