import type { PlacedLane } from './lane.js';
import type { Mark } from './marks.js';
import type { Arrow } from './messages.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';

/** How far a lost message gets, in shares of its way. */
const LOST_AT = 0.62;
/** How wide the way of a lost message is drawn, pixels. */
const STUB = 18;

/** Messages between lanes. */
export function arrowMarks(
  arrow: Arrow,
  lanes: ReadonlyMap<string, PlacedLane>,
  scale: Scale,
  scene: Scene,
  seenBy: string | null,
): Mark[] {
  const [from, to] = [lanes.get(arrow.from), lanes.get(arrow.to)];
  if (from === undefined || to === undefined) return [];
  const about = { seq: arrow.seq, tone: arrow.token };
  const x1 = scale.x(arrow.fromUs, arrow.seq);
  const way = { y1: from.portY, y2: to.portY };
  if (arrow.toUs === null || arrow.fate === 'dropped') {
    const x2 = arrow.toUs === null ? x1 + STUB : scale.x(arrow.toUs, arrow.endSeq);
    return stub(arrow, x1, x2, way, about);
  }
  const x2 = scale.x(arrow.toUs, arrow.endSeq);
  if (seenBy !== null) return seen(arrow, seenBy, x1, x2, way, about);
  const marks: Mark[] = [
    {
      shape: 'line',
      role: arrow.kind,
      head: true,
      points: [
        [x1, way.y1],
        [x2, way.y2],
      ],
      ...about,
    },
  ];
  if (arrow.kind === 'request') marks.push(...answerMarks(arrow, x2, way.y2, scene));
  return marks;
}

/** What a node said, where it said it. */
function answerMarks(arrow: Arrow, x: number, y: number, scene: Scene): Mark[] {
  const answer = scene.effectsOf(arrow.endSeq).find((it) => it.kind === 'send' || it.kind === 'lost');
  const said = answer?.detail.answer;
  if (said === undefined) return [];
  const isYes = said === 'yes';
  return [
    {
      shape: 'glyph',
      glyph: isYes ? 'dot' : 'ring',
      role: isYes ? 'yes' : 'no',
      x,
      y,
      seq: arrow.endSeq,
      tone: arrow.token,
    },
  ];
}

function stub(
  arrow: Arrow,
  x1: number,
  x2: number,
  { y1, y2 }: { readonly y1: number; readonly y2: number },
  about: { readonly seq: number; readonly tone: number },
): Mark[] {
  const share = arrow.fate === 'dropped' ? 1 : LOST_AT;
  const end: readonly [number, number] = [x1 + (x2 - x1) * share, y1 + (y2 - y1) * share];
  const line: Mark = { shape: 'line', role: 'lost', points: [[x1, y1], end], ...about };
  if (arrow.fate === 'flying') return [line];
  return [line, { shape: 'glyph', glyph: 'cross', role: 'lost', x: end[0], y: end[1], ...about }];
}

/** What one process can know of a message: when it sent it, or when it came. */
function seen(
  arrow: Arrow,
  process: string,
  x1: number,
  x2: number,
  { y1, y2 }: { readonly y1: number; readonly y2: number },
  about: { readonly seq: number; readonly tone: number },
): Mark[] {
  const isSender = arrow.from === process;
  const x = isSender ? x1 : x2;
  const points: readonly (readonly [number, number])[] = isSender
    ? [
        [x, y1],
        [x + STUB / 2, y2],
      ]
    : [
        [x - STUB / 2, y1],
        [x, y2],
      ];
  return [{ shape: 'line', role: arrow.kind, head: true, points, ...about }];
}
