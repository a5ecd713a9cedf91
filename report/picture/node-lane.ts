import { formatDurationMs } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';
import { numberOf, textOf } from '../details.js';
import { faultMarks, faultNotes } from './fault-marks.js';
import { BAR, bar, type LanePlan, rowY } from './lane.js';
import type { Mark } from './marks.js';
import { type Note, Notes, stacked } from './rows.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';
import type { Disturbances, KeySpan } from './spans.js';

/** Expiries nearer than this to where true time would put them look the same, µs: a node counts whole milliseconds. */
const APART_US = 1_500;

/** A node: the keys it holds, when they expire, and what befalls it. */
export function nodeLane(
  node: string,
  scene: Scene,
  scale: Scale,
  allKeys: readonly KeySpan[],
  { faults, clocks }: Disturbances,
): LanePlan {
  const keys = allKeys.filter((it) => it.node === node);
  const { rowOf, rows } = stacked(keys);
  const notes = new Notes(scale.right);
  const words = [
    ...counterNotes(node, scene, scale),
    ...damageNotes(node, scene, scale),
    ...faultNotes(node, scene, scale),
  ];
  for (const note of words.sort((a, b) => a.x - b.x)) notes.add(note);
  return {
    id: node,
    name: node,
    sub: 'node',
    rows,
    notes,
    clock: clocks.has(node),
    bars: (y) => [
      ...keys.flatMap((key, index) => keyMarks(key, scene, scale, rowY(y, rowOf[index] ?? 0))),
      ...faultMarks(node, faults, scale, y, rowY(y, rows) - 3),
    ],
  };
}

function keyMarks(key: KeySpan, scene: Scene, scale: Scale, y: number): Mark[] {
  const { token: tone, seq } = key;
  const name = scene.tokenName(tone);
  const from = scale.x(key.fromUs, seq);
  const to = scale.x(key.toUs, key.endSeq < 0 ? undefined : key.endSeq);
  const expires = `expires ${formatDurationMs(key.expiryUs)}`;
  const ends: Readonly<Record<KeySpan['end'], string>> = {
    expired: expires,
    deleted: 'deleted',
    overwritten: 'overwritten',
    forgotten: 'forgotten',
    open: expires,
  };
  const until = key.end === 'open' ? '' : `, to ${formatDurationMs(key.toUs)} ms`;
  const words = `${key.node} has ${name} from ${formatDurationMs(key.fromUs)}${until}: ${ends[key.end]}`;
  const marks = bar('key', from, to, y, [`${name}   ${ends[key.end]}`, name], { seq, tone, words });
  if (key.end === 'forgotten') marks.push(tick('gone', Math.max(to, from + 3), y, { seq: key.endSeq, tone }));
  if (key.end === 'expired') marks.push(tick('expiry', to, y, { seq: key.endSeq, tone }));
  if (key.end === 'expired' && Math.abs(key.expiryUs - key.trueExpiryUs) > APART_US) {
    const ghost = scale.x(key.trueExpiryUs);
    marks.push(tick('ghost', ghost, y, { seq, tone }));
    if (ghost > to) marks.push({ shape: 'box', role: 'ghost', x: to, y: y + 3, w: ghost - to, h: BAR - 6, seq, tone });
  }
  return marks;
}

function tick(
  role: 'expiry' | 'ghost' | 'gone',
  x: number,
  y: number,
  about: { readonly seq: number; readonly tone: number },
): Mark {
  return {
    shape: 'line',
    role,
    points: [
      [x, y - 3],
      [x, y + BAR + 3],
    ],
    ...about,
  };
}

/** What its fencing counter is from now on. */
function counterNotes(node: string, scene: Scene, scale: Scale): Note[] {
  return scene.events
    .filter((event) => event.process === node && event.kind === 'counter-set')
    .map((event) => {
      const counter = numberOf(event, 'counter');
      const text = counter < 0 ? 'counter lost' : `counter ${counter}`;
      return { x: scale.x(event.atUs, event.seq) + 2, text, role: 'note', seq: event.seq };
    });
}

/** Keys that somebody removes whose they are not. */
function damageNotes(node: string, scene: Scene, scale: Scale): Note[] {
  return scene.events.flatMap((event): Note[] => {
    if (event.process !== node || event.kind !== 'key-gone') return [];
    const words = damageWords(event, scene);
    return words === null
      ? []
      : [
          {
            x: scale.x(event.atUs, event.seq) + 2,
            text: words,
            role: 'bad',
            seq: event.seq,
            tone: numberOf(event, 'token'),
          },
        ];
  });
}

function damageWords(event: TraceEvent, scene: Scene): string | null {
  const how = textOf(event, 'how');
  const by = scene.eventOf(event.cause);
  if (by?.kind !== 'execute' || (how !== 'deleted' && how !== 'overwritten')) return null;
  const token = numberOf(event, 'token');
  if (token === numberOf(by, 'token')) return null;
  return `${textOf(by, 'client')} ${how === 'deleted' ? 'deletes' : 'replaces'} ${scene.tokenName(token)}, not its own`;
}
