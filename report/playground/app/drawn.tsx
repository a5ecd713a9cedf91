import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { layout } from '../../picture/layout.js';
import { STATIC_VIEW } from '../../picture/marks.js';
import { type Move, moved, type Opened } from '../../viewer/model.js';
import { PictureView } from '../../viewer/picture-view.js';

const AXES = [
  ['folded', 'time, quiet parts folded'],
  ['order', 'order of events'],
  ['true', 'true time'],
] as const;

const KEYS: Readonly<Record<string, Move>> = {
  ArrowLeft: 'back',
  ArrowRight: 'next',
  v: 'violation',
  n: 'faultNext',
  p: 'faultBack',
  c: 'cause',
  m: 'other',
};

/** Where keys mean something else. */
const TYPING = 'input, select, textarea, [role=tablist]';

/** The moves that are buttons, with their keys. */
const MOVES: readonly (readonly [move: Move, words: string, key: string])[] = [
  ['back', 'Back', '←'],
  ['next', 'Next', '→'],
  ['violation', 'Violation', 'v'],
  ['faultNext', 'Next fault', 'n'],
];

/** The picture of a run, and the ways through it. */
export function Drawn(props: {
  readonly opened: Opened;
  readonly at: number;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { opened, at, onPick } = props;
  const { scene } = opened;
  const [box, width] = useInnerWidth();
  const [axis, setAxis] = useState<string>('folded');
  const all = useMemo(() => scene.events.map((_, i) => i), [scene]);
  const act = (move: Move): void => onPick(scene.events[moved(opened, all, at, move)]?.seq ?? 0);
  useKeys(act);
  const picture = useMemo(
    () => layout(scene, { ...STATIC_VIEW, heading: false, axis, zoom: 1, width }),
    [scene, axis, width],
  );
  return (
    <div class="drawn" ref={box}>
      <PictureView picture={picture} scene={scene} selected={scene.events[at] ?? null} onPick={onPick} />
      <p class="moves">
        {MOVES.map(([move, words, key]) => (
          <button type="button" key={move} onClick={() => act(move)}>
            {words} <kbd>{key}</kbd>
          </button>
        ))}
        <label>
          axis{' '}
          <select value={axis} onChange={(it) => setAxis(it.currentTarget.value)}>
            {AXES.map(([it, words]) => (
              <option key={it} value={it}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </p>
    </div>
  );
}

/** How wide an element is inside, pixels. */
function useInnerWidth() {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(900);
  useLayoutEffect(() => {
    const measure = (): void => setWidth((box.current?.clientWidth ?? 900) - 10);
    measure();
    addEventListener('resize', measure);
    return () => removeEventListener('resize', measure);
  }, []);
  return [box, width] as const;
}

function useKeys(act: (move: Move) => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const move = KEYS[event.key];
      const isTyping = event.target instanceof Element && event.target.closest(TYPING) !== null;
      if (move === undefined || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act(move);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  });
}
