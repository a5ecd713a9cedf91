import type { AdviceVerdict } from '../advise/advice.js';
import { LIGHT } from '../text/look.js';

const LABEL = 'redis lock';
const TONES: Readonly<Record<AdviceVerdict, string>> = { safe: 'good', 'safe-if': 'bad', not: 'bad' };
/** Width of a character of the font at its size, px; and the room at each end. */
const CHARACTER = 6.6;
const ROOM = 6;
const HEIGHT = 20;

/** The verdict on a lock as a picture for a README. Safe only with changes is not safe yet. */
export function badge(verdict: string, of: AdviceVerdict): string {
  const [left, right] = [LABEL, of === 'safe-if' ? 'not safe yet' : verdict].map((it) => ({
    text: it,
    width: Math.round(it.length * CHARACTER + 2 * ROOM),
  }));
  if (left === undefined || right === undefined) return '';
  const width = left.width + right.width;
  const said = `${left.text}: ${right.text}`;
  const place = (x: number, text: string): string =>
    `<text x="${x}" y="14" text-anchor="middle" fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">${text}</text>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${HEIGHT}" role="img" aria-label="${said}">
<title>${said}</title>
<rect width="${width}" height="${HEIGHT}" rx="3" fill="${LIGHT[TONES[of]] ?? '#555'}"/>
<path d="M3 0h${left.width - 3}v${HEIGHT}H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#444c56"/>
${place(left.width / 2, left.text)}
${place(left.width + right.width / 2, right.text)}
</svg>
`;
}
