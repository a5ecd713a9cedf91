import type { JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import type { Picture } from '../picture/marks.js';
import { svgOf } from '../picture/svg.js';
import { paint } from './canvas.js';
import type { MarkIndex } from './visible.js';

/** More marks than this at once are painted on a canvas. */
const MOST_SVG = 3000;

/** What is painted of a picture. */
export function Stage(props: {
  readonly picture: Picture;
  readonly index: MarkIndex;
  readonly window: { readonly from: number; readonly to: number };
  readonly x: number | null;
  readonly lane: Picture['lanes'][number] | undefined;
  readonly onMove: (event: MouseEvent) => void;
  readonly onClick: (event: MouseEvent) => void;
  readonly onLeave: () => void;
}): JSX.Element {
  const { picture, index, window, x, lane, onMove, onClick, onLeave } = props;
  const { width, height, gutter } = picture;
  const stage = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const visible = useMemo(() => index.between(window.from, window.to), [index, window]);
  const onCanvas = visible.length > MOST_SVG;
  const html = useMemo(() => (onCanvas ? '' : visible.map(svgOf).join('')), [visible, onCanvas]);
  const names = useMemo(
    () =>
      picture.marks
        .filter((it) => it.pinned === true)
        .map(svgOf)
        .join(''),
    [picture],
  );
  useLayoutEffect(() => {
    if (onCanvas && canvas.current !== null)
      paint(canvas.current, picture, visible, window.from, Math.min(window.to, width) - window.from);
  }, [onCanvas, visible, picture]);
  usePointer(stage, onMove, onClick, onLeave);
  return (
    <div class="stage picture" ref={stage} style={{ width: `${width}px`, height: `${height}px` }}>
      {onCanvas ? <canvas ref={canvas} style={{ left: `${window.from}px` }} /> : null}
      <svg class="picture" width={width} height={height} role="img" aria-label={picture.label}>
        <g dangerouslySetInnerHTML={{ __html: html }} />
        {lane === undefined ? null : <rect class="chosen" x={0} y={lane.y} width={width} height={lane.height} />}
        {x === null ? null : <path class="cursor" d={`M${x} 0V${height - 30}`} />}
      </svg>
      <svg class="picture names" width={gutter - 6} height={height} aria-hidden="true">
        <rect class="paper" width="100%" height="100%" />
        {lane === undefined ? null : <rect class="chosen" x={0} y={lane.y} width={gutter} height={lane.height} />}
        <g dangerouslySetInnerHTML={{ __html: names }} />
      </svg>
    </div>
  );
}

/** A shorter way for pointers; keys and buttons lead everywhere. */
function usePointer(
  stage: RefObject<HTMLDivElement | null>,
  onMove: (event: MouseEvent) => void,
  onClick: (event: MouseEvent) => void,
  onLeave: () => void,
): void {
  useEffect(() => {
    const it = stage.current;
    it?.addEventListener('mousemove', onMove);
    it?.addEventListener('click', onClick);
    it?.addEventListener('mouseleave', onLeave);
    return () => {
      it?.removeEventListener('mousemove', onMove);
      it?.removeEventListener('click', onClick);
      it?.removeEventListener('mouseleave', onLeave);
    };
  });
}
