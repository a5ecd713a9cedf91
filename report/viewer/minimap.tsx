import type { JSX, Ref } from 'preact';
import { useMemo } from 'preact/hooks';
import type { BoxMark, Picture } from '../picture/marks.js';
import { svgOf } from '../picture/svg.js';

const HEIGHT = 26;
const MOST = 600;

/** All of a long picture, small, with what of it is in sight; it is a slider. */
export function Minimap(props: {
  readonly picture: Picture;
  /** What is in sight: `follow` moves it. */
  readonly frame: Ref<SVGRectElement>;
  readonly slider: Ref<HTMLInputElement>;
  readonly most: number;
  readonly onMove: (left: number) => void;
}): JSX.Element {
  const { picture, frame, slider, most, onMove } = props;
  const html = useMemo(() => smallOf(picture), [picture]);
  return (
    <div class="minimap">
      <svg
        width="100%"
        height={HEIGHT}
        viewBox={`0 0 ${picture.width} ${HEIGHT}`}
        preserveAspectRatio="none"
        class="picture"
        aria-hidden="true"
      >
        <g dangerouslySetInnerHTML={{ __html: html }} />
        <rect class="sight" ref={frame} y={0} height={HEIGHT} width={0} />
      </svg>
      <input
        type="range"
        ref={slider}
        min={0}
        max={most}
        // A hundredth with each arrow key.
        step="any"
        aria-label="Where in the run"
        onInput={(it) => onMove(Number(it.currentTarget.value))}
      />
    </div>
  );
}

/** Who believed in what, faults, and what went wrong: the rest is too small to be seen. */
function smallOf({ marks, lanes }: Picture): string {
  const clients = [...new Set(marks.flatMap((it) => (it.role === 'belief' && it.shape === 'box' ? [it.y] : [])))];
  const step = Math.min(8, (HEIGHT - 6) / Math.max(1, clients.length));
  const small = marks.flatMap((mark): BoxMark[] => {
    if (mark.shape !== 'box') return [];
    if (mark.role === 'band') return [{ ...mark, y: 0, h: HEIGHT }];
    if (mark.role === 'down' || mark.role === 'frozen') {
      const lane = lanes.find(({ y, height }) => mark.y >= y && mark.y <= y + height);
      return [{ ...mark, y: HEIGHT - 5, h: lane === undefined ? 0 : 4 }];
    }
    if (mark.role !== 'belief') return [];
    return [{ ...mark, role: 'truth', y: 1 + clients.indexOf(mark.y) * step, h: Math.max(2, step - 2) }];
  });
  const every = Math.max(1, Math.ceil(small.length / MOST));
  return small
    .filter((mark, i) => mark.role === 'band' || i % every === 0)
    .map((mark) => svgOf(mark))
    .join('');
}
