import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Picture } from '../picture/marks.js';
import { SVG_DEFS, svgOf } from '../picture/svg.js';
import { paint } from './canvas.js';
import { MarkIndex, thinned } from './visible.js';

/** More marks than this at once are painted on a canvas. */
const MOST_SVG = 3000;
/** How far beyond its edges a picture is painted ahead, pixels. */
const AHEAD = 600;

/** A picture with a cursor; only what can be seen of it is painted. */
export function PictureView(props: {
  readonly picture: Picture;
  /** Sequence number and process of the selected event. */
  readonly selected: { readonly seq: number; readonly process: string } | null;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { picture, selected, onPick } = props;
  const box = useRef<HTMLDivElement>(null);
  const stage = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [window, setWindow] = useState({ from: 0, to: 2400 });
  const index = useMemo(() => new MarkIndex(thinned(picture.marks, picture.width)), [picture]);
  const visible = useMemo(() => index.between(window.from, window.to), [index, window]);
  const onCanvas = visible.length > MOST_SVG;
  const html = useMemo(() => (onCanvas ? '' : SVG_DEFS + visible.map(svgOf).join('')), [visible, onCanvas]);
  useLayoutEffect(() => {
    if (onCanvas && canvas.current !== null)
      paint(canvas.current, picture, visible, window.from, Math.min(window.to, picture.width) - window.from);
  }, [onCanvas, visible, picture]);
  const follow = (): void => {
    const it = box.current;
    if (it === null) return;
    const [left, right] = [it.scrollLeft, it.scrollLeft + it.clientWidth];
    if (left >= window.from && right <= window.to) return;
    setWindow({ from: Math.max(0, left - AHEAD), to: right + AHEAD });
  };
  useEffect(follow, [picture]);
  const x = selected === null ? null : picture.xOf(selected.seq);
  useEffect(() => {
    const it = box.current;
    if (it === null || x === null) return;
    if (x < it.scrollLeft + 130 || x > it.scrollLeft + it.clientWidth - 60)
      it.scrollLeft = Math.max(0, x - it.clientWidth / 2);
    follow();
  }, [x, picture]);
  useEffect(() => {
    // A shorter way for pointers; keys and buttons lead everywhere.
    const onClick = (event: MouseEvent): void => pickAt(event, picture, onPick);
    const it = stage.current;
    it?.addEventListener('click', onClick);
    return () => it?.removeEventListener('click', onClick);
  });
  const lane = picture.lanes.find(({ id }) => id === selected?.process);
  const { width, height } = picture;
  return (
    // A region that scrolls has to be reachable by keyboard.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: see above
    <section class="scroll" ref={box} tabIndex={0} aria-label="Picture of the run, scrolls sideways" onScroll={follow}>
      <div class="stage picture" ref={stage} style={{ width: `${width}px`, height: `${height}px` }}>
        {onCanvas ? <canvas ref={canvas} style={{ left: `${window.from}px` }} /> : null}
        <svg class="picture" width={width} height={height} role="img" aria-label={picture.label}>
          <g dangerouslySetInnerHTML={{ __html: html }} />
          {lane === undefined ? null : <rect class="chosen" x={0} y={lane.y} width={width} height={lane.height} />}
          {x === null ? null : <path class="cursor" d={`M${x} 0V${height - 30}`} />}
        </svg>
      </div>
    </section>
  );
}

/** What was pointed at, or what lies nearest to it. */
function pickAt(event: MouseEvent, picture: Picture, onPick: (seq: number) => void): void {
  const target = event.target instanceof Element ? event.target.getAttribute('data-seq') : null;
  if (target !== null) {
    onPick(Number(target));
    return;
  }
  const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top];
  let best: number | null = null;
  let nearest = 24;
  for (const mark of picture.marks) {
    if (mark.seq === undefined || mark.shape === 'line' || mark.shape === 'box') continue;
    const distance = Math.hypot(mark.x - x, mark.y - y);
    if (distance >= nearest) continue;
    nearest = distance;
    best = mark.seq;
  }
  if (best !== null) onPick(best);
}
