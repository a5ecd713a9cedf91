import type { TraceEvent } from '../../sim/index.js';
import { numberOf, saidOf, textOf } from '../details.js';
import { clockPoints } from './clock-line.js';
import type { Frame } from './frame.js';
import { clipped, type Mark, type Role, textWidth } from './marks.js';
import type { Notes } from './rows.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';

/** The height of a bar, pixels. */
export const BAR = 20;
const BAR_GAP = 3;
const PAD = 7;

/** The height of the strip of a clock, pixels. */
const CLOCK_HEIGHT = 22;

/** What a lane holds, before it is known how far down it lies. */
export interface LanePlan {
  readonly id: string;
  readonly name: string;
  readonly sub: string;
  readonly rows: number;
  readonly notes: Notes;
  /** Marks of the bars, for the top of the first row. */
  readonly bars: (y: number) => Mark[];
  /** Whether its clock is drawn. */
  readonly clock: boolean;
}

/** Where a lane lies. */
export interface PlacedLane extends LanePlan {
  readonly y: number;
  readonly height: number;
  readonly barY: number;
  /** Where messages leave and arrive. */
  readonly portY: number;
}

/** Stacks lanes from `top` down. */
export function placed(plans: readonly LanePlan[], top: number): PlacedLane[] {
  let y = top;
  return plans.map((plan) => {
    const barY = y + PAD + plan.notes.height;
    const barsHeight = plan.rows * (BAR + BAR_GAP) - BAR_GAP;
    const height = barY - y + barsHeight + (plan.clock ? CLOCK_HEIGHT : 0) + PAD;
    const isNode = /^n\d/.test(plan.id) || plan.id.startsWith('resource');
    const lane = { ...plan, y, height, barY, portY: isNode ? barY : barY + barsHeight };
    y += height;
    return lane;
  });
}

/** What belongs to the lane itself. */
export function laneMarks(lane: PlacedLane, scene: Scene, scale: Scale, frame: Frame): Mark[] {
  const bottom = lane.y + lane.height;
  return [
    {
      shape: 'line',
      role: 'lane',
      points: [
        [frame.nameX, bottom],
        [scale.right, bottom],
      ],
    },
    ...nameMarks(lane, frame),
    ...lane.bars(lane.barY),
    ...lane.notes.marks(lane.y + PAD - 3),
    ...(lane.clock ? clockMarks(lane, scene, scale, frame) : []),
  ];
}

const NAME_SIZE = 13;

function nameMarks({ barY, name, sub }: PlacedLane, { nameX, gutter, isNarrow }: Frame): Mark[] {
  const room = gutter - nameX - 6 - (isNarrow ? 0 : textWidth(sub, 10) + 7);
  const text = clipped(name, room, NAME_SIZE + 1);
  const y = barY + BAR / 2 + (isNarrow ? -1 : 4);
  const beside = { x: nameX + textWidth(text, NAME_SIZE + 1) + 7, y };
  return [
    { shape: 'text', role: 'name', x: nameX, y, text, pinned: true },
    { shape: 'text', role: 'sub', ...(isNarrow ? { x: nameX, y: y + 12 } : beside), text: sub, pinned: true },
  ];
}

/** How far the clock of a process is off, as a line in its lane; up is ahead. */
function clockMarks(lane: PlacedLane, scene: Scene, scale: Scale, frame: Frame): Mark[] {
  const points = clockPoints(lane.id, scene);
  const top = lane.y + lane.height - CLOCK_HEIGHT - 1;
  const middle = top + CLOCK_HEIGHT / 2;
  const most = Math.max(1, ...points.map((it) => Math.abs(it.offsetUs)));
  const y = (offsetUs: number): number => middle - (offsetUs / most) * (CLOCK_HEIGHT / 2 - 4);
  const line = points.map((it): readonly [number, number] => [scale.x(it.atUs, it.seq), y(it.offsetUs)]);
  const right: readonly [number, number] = [scale.right, line.at(-1)?.[1] ?? middle];
  const marks: Mark[] = [
    { shape: 'text', role: 'sub', x: frame.nameX, y: middle + 4, text: 'clock off', pinned: true },
    {
      shape: 'line',
      role: 'grid',
      points: [
        [frame.gutter, middle],
        [scale.right, middle],
      ],
    },
    { shape: 'line', role: 'clock', points: [...line, right] },
  ];
  let free = 0;
  for (const [index, point] of points.entries()) {
    const next = points[index + 1];
    if (next?.atUs === point.atUs) continue;
    const text = offsetWords(point.offsetUs);
    const x = scale.x(point.atUs, point.seq) + 3;
    if (x < free || (index > 0 && Math.abs(point.offsetUs - (points[index - 1]?.offsetUs ?? 0)) < most / 20)) continue;
    free = x + textWidth(text, 10) + 8;
    if (free > scale.right + 8) continue;
    marks.push({ shape: 'text', role: 'sub', x, y: y(point.offsetUs) + (point.offsetUs > 0 ? 11 : -3), text });
  }
  return marks;
}

function offsetWords(us: number): string {
  const ms = Math.round(us / 100) / 10;
  return `${ms > 0 ? '+' : ms < 0 ? '−' : ''}${Math.abs(ms)} ms`;
}

/** A bar with as much text in it as there is room for. */
export function bar(
  role: Role,
  from: number,
  to: number,
  y: number,
  texts: readonly string[],
  about: { readonly seq: number; readonly tone?: number; readonly words?: string },
): Mark[] {
  const w = Math.max(3, to - from);
  const box: Mark = { shape: 'box', role, x: from, y, w, h: BAR, ...about };
  const text = texts.find((it) => textWidth(it) + 10 <= w);
  if (text === undefined) return [box];
  return [box, { shape: 'text', role: `${role}`, x: from + 6, y: y + 14, text, ...about }];
}

/** The top of a row of bars. */
export function rowY(y: number, row: number): number {
  return y + row * (BAR + BAR_GAP);
}

/** What a client asks of nodes, in short. */
export function commandWords(event: TraceEvent, scene: Scene): string {
  const token = scene.tokenName(numberOf(event, 'token'));
  switch (textOf(event, 'operation')) {
    case 'acquire':
      return `SET ${token}`;
    case 'extend':
      return `extend ${token}`;
    case 'release':
      return `DEL ${token}`;
    case 'read-counter':
      return saidOf(event, token).split(' ')[0] || 'read counter';
    case 'raise-counter':
      return `counter ${numberOf(event, 'counter')}`;
    default:
      return textOf(event, 'operation');
  }
}
