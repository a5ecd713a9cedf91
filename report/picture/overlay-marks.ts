import { formatDurationMs } from '../../scenarios/index.js';
import { propertyLabel } from '../words.js';
import { violationEvent } from './causal-path.js';
import { type Frame, frameOf } from './frame.js';
import { type Mark, textWidth, type View } from './marks.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';

/** From where to where the lanes reach, pixels. */
export interface Reach {
  readonly top: number;
  readonly bottom: number;
}

/** Room above the lanes for the words on what went wrong, pixels. */
export const STRIP = 36;
const LINE = 15;

/** Quiet times, drawn short. */
export function foldMarks(scale: Scale, { top, bottom }: Reach): Mark[] {
  return scale.folds.flatMap(({ x, width, us }): Mark[] => {
    const text = `⟨ ${formatDurationMs(us)} ms ⟩`;
    const box: Mark = { shape: 'box', role: 'fold', x: x + width * 0.3, y: top, w: width * 0.4, h: bottom - top };
    if (textWidth(text, 9) > width + 10) return [box];
    return [box, { shape: 'text', role: 'fold', x: x + width / 2, y: bottom + 26, text, anchor: 'middle' }];
  });
}

/** What goes wrong, from when to when. */
interface Wrong {
  readonly x: number;
  readonly to: number;
  readonly seq: number | undefined;
  readonly text: string;
}

const WORDS: Readonly<Record<string, string>> = {
  'mutual-exclusion': 'both',
  'no-stale-write': 'not held',
  validity: 'no majority',
};

function wrongsOf(scene: Scene, scale: Scale): Wrong[] {
  const when = (fromUs: number, toUs: number): string =>
    toUs > fromUs ? `${formatDurationMs(fromUs)} to ${formatDurationMs(toUs)} ms` : `at ${formatDurationMs(fromUs)} ms`;
  return [
    ...scene.violations.map((it) => {
      const seq = violationEvent(it, scene)?.seq;
      const toUs = it.untilUs ?? it.atUs;
      const text = `✗ ${WORDS[it.property] ?? propertyLabel(it.property)}, ${when(it.atUs, toUs)}`;
      return { x: scale.x(it.atUs, seq), to: scale.x(toUs), seq, text };
    }),
    ...scene.outages.map(({ fromUs, toUs }) => ({
      x: scale.x(fromUs),
      to: scale.x(toUs),
      seq: undefined,
      text: `✗ nobody can acquire, ${when(fromUs, toUs)}`,
    })),
  ];
}

/** Bands and rules of what goes wrong, in words above the lanes, and what would have prevented it. */
export function wrongMarks(scene: Scene, scale: Scale, { top, bottom }: Reach, view: View, frame: Frame): Mark[] {
  const wrongs = wrongsOf(scene, scale);
  const from = top - STRIP;
  const rule = (x: number, role: 'rule' | 'thin'): Mark => ({
    shape: 'line',
    role,
    points: [
      [x, from + 2],
      [x, bottom],
    ],
  });
  const inside = (x: number, text: string): number => {
    const wide = textWidth(text, 12);
    // In a narrow picture they stand over the middle of what is in sight.
    const wanted = frame.isNarrow ? x - wide / 2 : x + 5;
    return Math.max(frame.gutter, Math.min(wanted, Math.max(scale.right, view.width - frame.margin) - wide));
  };
  let free = 0;
  const marks = wrongs.flatMap(({ x, to, seq, text }): Mark[] => {
    const band: Mark[] = to > x ? [{ shape: 'box', role: 'band', x, y: from, w: to - x, h: bottom - from }] : [];
    const lines = [rule(x, 'rule'), ...(to > x ? [rule(to, 'thin')] : [])];
    const at = inside(x, text);
    if (at < free) return [...band, ...lines];
    free = at + textWidth(text, 12) + 10;
    const about = seq === undefined ? {} : { seq };
    return [...band, ...lines, { shape: 'text', role: 'bad', x: at, y: from + LINE - 2, text, ...about }];
  });
  const [first] = wrongs;
  if (first === undefined || view.prevented === undefined || view.prevented.length === 0) return marks;
  const text = `✓ prevented by ${view.prevented.slice(0, frame.isNarrow ? 1 : 2).join(' or ')}`;
  return [...marks, { shape: 'text', role: 'good', x: inside(first.x, text), y: from + 2 * LINE - 2, text }];
}

/** The axis below the lanes. */
export function axisMarks(scale: Scale, view: View, y: number, width: number): Mark[] {
  const { nameX } = frameOf(view);
  const names: Readonly<Record<string, string>> = {
    folded: 'time, ms',
    true: 'time, ms',
    order: 'order; ms',
  };
  const ticks = scale.ticks.flatMap(({ x, label }): Mark[] => [
    {
      shape: 'line',
      role: 'tick',
      points: [
        [x, y],
        [x, y + 5],
      ],
    },
    { shape: 'text', role: 'tick', x: Math.min(x, width - 8), y: y + 16, text: label, anchor: 'middle' },
  ]);
  const spans = scale.instants.map(
    ([from, to]): Mark => ({
      shape: 'line',
      role: 'tick',
      points: [
        [from, y + 1.5],
        [to, y + 1.5],
      ],
    }),
  );
  const name = names[view.axis] ?? `${view.axis}, ms`;
  return [{ shape: 'text', role: 'sub', x: nameX, y: y + 16, text: name, pinned: true }, ...ticks, ...spans];
}
