import type { JSX } from 'preact';
import { formatDurationMs } from '../../scenarios/index.js';
import { describeEvent, ruleOf } from '../event-words.js';
import type { Mark } from '../picture/marks.js';
import type { Scene } from '../picture/scene.js';

/** Where a card stands and what it is about. */
export interface CardAt {
  readonly seq: number;
  /** What the mark itself stands for, if it is more than its event. */
  readonly words: string;
  /** From the top left of what is seen of the picture, pixels. */
  readonly x: number;
  readonly y: number;
}

const WIDTH = 300;

/** What a mark of the picture stands for, beside it. Everything in it is in the inspector too, for those who do not see it. */
export function Card(props: {
  readonly at: CardAt;
  readonly scene: Scene;
  readonly width: number;
}): JSX.Element | null {
  const { at, scene, width } = props;
  const event = scene.eventOf(at.seq);
  if (event === undefined) return null;
  const rule = ruleOf(event, scene);
  const left = Math.max(4, Math.min(at.x + 14, width - WIDTH - 8));
  return (
    <div class="card" style={{ left: `${left}px`, top: `${at.y + 16}px` }} aria-hidden="true">
      <p class="title">{at.words === '' ? `${event.process} ${describeEvent(event, scene)}` : at.words}</p>
      {rule === '' ? null : <p>{rule}</p>}
      <p class="faint">
        {at.words === '' ? '' : `begins with: ${event.process} ${describeEvent(event, scene)}, `}
        {formatDurationMs(event.atUs)} ms
      </p>
    </div>
  );
}

/** The card of a mark that is pointed at. */
export function cardOf(mark: Mark, x: number, y: number): CardAt | null {
  return mark.seq === undefined ? null : { seq: mark.seq, words: mark.words ?? '', x, y };
}
