import { formatDurationMs } from '../../scenarios/index.js';
import { describeFault, NodeKeys } from '../fault-words.js';
import type { Mark } from './marks.js';
import { textWidth } from './marks.js';
import type { Note } from './rows.js';
import type { Scale } from './scale.js';
import type { Scene } from './scene.js';
import type { FaultSpan } from './spans.js';

/** Least width of what may have lasted no time at all. */
const LEAST = 7;

/** What befell a process, in words at its instant. */
export function faultNotes(process: string, scene: Scene, scale: Scale): Note[] {
  const keys = new NodeKeys();
  return scene.events.flatMap((event): Note[] => {
    if (event.process !== process && event.kind !== 'partition') return [];
    const words = describeFault(event, scene.context, keys);
    keys.follow(event);
    if (words === null || !words.processes.includes(process)) return [];
    if (event.kind === 'partition' && words.who !== process && event.process !== process) return [];
    const x = scale.x(event.atUs, event.seq) + 2;
    return [{ x, text: `⚡ ${words.what}`, role: 'fault', seq: event.seq }];
  });
}

const INSIDE: Readonly<Record<FaultSpan['kind'], string>> = {
  down: 'down',
  frozen: '',
  cut: 'cut off',
  refusing: 'refuses',
  moment: '',
};

const LASTING: Readonly<Record<Exclude<FaultSpan['kind'], 'moment'>, string>> = {
  down: 'is down',
  frozen: 'is paused',
  cut: 'is cut off',
  refusing: 'answers with errors',
};

/** The times in which it was not its usual self, over its bars. */
export function faultMarks(
  process: string,
  faults: readonly FaultSpan[],
  scale: Scale,
  top: number,
  bottom: number,
): Mark[] {
  return faults
    .filter((it) => it.process === process)
    .flatMap(({ kind, fromUs, toUs, seq, endSeq }): Mark[] => {
      const x = scale.x(fromUs, seq);
      const role = kind === 'moment' ? 'rule' : kind;
      if (kind === 'moment') return [{ shape: 'glyph', glyph: 'flag', role: 'fault', x, y: top - 1, seq }];
      const w = Math.max(LEAST, scale.x(toUs, endSeq) - x);
      const words = `${process} ${LASTING[kind]} from ${formatDurationMs(fromUs)} to ${formatDurationMs(toUs)} ms`;
      const box: Mark = { shape: 'box', role, x, y: top - 2, w, h: bottom - top + 4, seq, words };
      const text = INSIDE[kind];
      if (w < textWidth(text) + 16) return [box];
      return [
        box,
        { shape: 'text', role: 'fault', x: x + w / 2, y: (top + bottom) / 2 + 4, text, anchor: 'middle', seq, words },
      ];
    });
}
