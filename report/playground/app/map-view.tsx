import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Schedule } from '../../../scenarios/index.js';
import { type Axis, cellAt, computedCrossings, type SafetyMap } from '../../../search/safety-map/index.js';
import { AXIS_WORDS, phrase, safetyMapSentence, settingWords, valueWords } from '../../safety-map/phrases.js';

const MARKS = { safe: '', violated: '×', unavailable: '○' } as const;
const LEFT = 92;
const TOP = 24;
const BOTTOM = 44;
const RIGHT = 26;
const CELL_HEIGHT = 22;
const WIDTH = 900;

/** A map whose cells lead to their runs. */
export function MapView(props: {
  readonly map: SafetyMap;
  readonly onCell: (schedule: Schedule, title: string) => void;
}): JSX.Element {
  const { map, onCell } = props;
  const { plan, columns } = map;
  const { x, y } = plan;
  const [at, setAt] = useState<readonly [number, number]>(() => lastSafe(map));
  const [column, row] = at;
  const show = (i: number, j: number): void => {
    const [atX = 0, atY = 0] = [columns[i]?.at, y.values[j]];
    setAt([i, j]);
    onCell(cellAt(plan, atX, atY).schedule, `${phrase(x.name, atX)} and ${phrase(y.name, atY)}`);
  };
  return (
    <section class="map" aria-label="Safety map">
      <h2 class="answer">{safetyMapSentence(map)}</h2>
      <p class="config">{settingWords(plan)}</p>
      <Drawing map={map} at={at} onPick={show} />
      <p class="legend">
        <span class="swatch safe" /> safe <span class="swatch violated">×</span> violated{' '}
        <span class="swatch unavailable">○</span> unavailable <span class="swatch theory" /> edge by the theory
      </p>
      <div class="pick">
        <Slider axis={x} at={column} last={columns.length - 1} onMove={(to) => setAt([to, row])} />
        <Slider axis={y} at={row} last={y.values.length - 1} onMove={(to) => setAt([column, to])} />
        <button type="button" onClick={() => show(column, row)}>
          Show this run ({columns[column]?.measured[row] ?? ''})
        </button>
      </div>
    </section>
  );
}

/** Where the map begins: in the column that its answer is about, at the last value that is safe. */
function lastSafe({ columns, focus }: SafetyMap): readonly [number, number] {
  const column = Math.max(
    0,
    columns.findIndex(({ at }) => at === focus.at),
  );
  const row = columns[column]?.measured.lastIndexOf('safe') ?? 0;
  return [column, Math.max(0, row)];
}

function Drawing(props: {
  readonly map: SafetyMap;
  readonly at: readonly [column: number, row: number];
  readonly onPick: (column: number, row: number) => void;
}): JSX.Element {
  const { map, at, onPick } = props;
  const { plan, columns } = map;
  const { x, y } = plan;
  const width = (WIDTH - LEFT - RIGHT) / columns.length;
  const height = TOP + CELL_HEIGHT * y.values.length;
  const top = (row: number): number => height - CELL_HEIGHT * (row + 1);
  const drawing = useRef<SVGSVGElement>(null);
  useEffect(() => {
    // A shorter way for pointers; the sliders below lead everywhere.
    const onClick = (event: MouseEvent): void => {
      const cell = event.target instanceof Element ? event.target.closest('[data-cell]') : null;
      const [i, j] = cell?.getAttribute('data-cell')?.split(' ').map(Number) ?? [];
      if (i !== undefined && j !== undefined) onPick(i, j);
    };
    const it = drawing.current;
    it?.addEventListener('click', onClick);
    return () => it?.removeEventListener('click', onClick);
  });
  return (
    // A region that scrolls has to be reachable by keyboard.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: see above
    <section class="scroll" tabIndex={0} aria-label="Map, may scroll sideways">
      <svg
        ref={drawing}
        viewBox={`0 0 ${WIDTH} ${height + BOTTOM}`}
        role="img"
        aria-label={`Map of ${AXIS_WORDS[y.name]} against ${AXIS_WORDS[x.name]}. ${safetyMapSentence(map)}`}
      >
        <Cells map={map} width={width} top={top} />
        <TheoryLine map={map} width={width} top={top} />
        <rect class="here" x={LEFT + at[0] * width} y={top(at[1])} width={width} height={CELL_HEIGHT} />
        <text class="tick axis start" x={0} y={14}>
          ↑ {AXIS_WORDS[y.name]}
        </text>
        {ticksOf(y.values.length, 9).map((j) => (
          <text key={j} class="tick end" x={LEFT - 6} y={top(j) + 15}>
            {valueWords(y.name, y.values[j] ?? 0)}
          </text>
        ))}
        {ticksOf(columns.length, 6).map((i) => (
          <text key={i} class="tick" x={LEFT + (i + 0.5) * width} y={height + 16}>
            {valueWords(x.name, columns[i]?.at ?? 0)}
          </text>
        ))}
        <text class="tick axis" x={LEFT + (WIDTH - LEFT - RIGHT) / 2} y={height + 36}>
          {AXIS_WORDS[x.name]} →
        </text>
      </svg>
    </section>
  );
}

interface Placed {
  readonly map: SafetyMap;
  /** Of a cell, and the upper edge of a row. */
  readonly width: number;
  readonly top: (row: number) => number;
}

function Cells({ map, width, top }: Placed): JSX.Element {
  const { columns, plan } = map;
  return (
    <>
      {columns.map(({ at: value, measured }, i) =>
        measured.map((verdict, j) => (
          <g key={`${value} ${plan.y.values[j]}`} class={`cell ${verdict}`} data-cell={`${i} ${j}`}>
            <rect x={LEFT + i * width} y={top(j)} width={width} height={CELL_HEIGHT} />
            <text x={LEFT + (i + 0.5) * width} y={top(j) + 16}>
              {MARKS[verdict]}
            </text>
          </g>
        )),
      )}
    </>
  );
}

function Slider(props: {
  readonly axis: Axis;
  readonly at: number;
  readonly last: number;
  readonly onMove: (to: number) => void;
}): JSX.Element {
  const { axis, at, last, onMove } = props;
  const said = valueWords(axis.name, axis.values[at] ?? 0);
  return (
    <label>
      <span>
        {AXIS_WORDS[axis.name]}: {said}
      </span>
      <input
        class="slider"
        type="range"
        min={0}
        max={last}
        value={at}
        aria-valuetext={said}
        onInput={(it) => onMove(Number(it.currentTarget.value))}
      />
    </label>
  );
}

/** Places that are labelled: the first, the last, and some between. */
function ticksOf(length: number, most: number): number[] {
  const every = Math.max(1, Math.ceil((length - 1) / (most - 1)));
  const places = Array.from({ length }, (_, i) => i).filter((i) => i % every === 0 && length - 1 - i >= every / 2);
  return [...places, length - 1];
}

function TheoryLine({ map, width, top }: Placed): JSX.Element {
  const { plan, columns } = map;
  const lines = columns.flatMap(({ at }, i) =>
    computedCrossings(plan, at).map((value) => {
      const above = plan.y.values.findIndex((it) => it > value);
      if (above <= 0) return '';
      const [low = 0, high = 1] = [plan.y.values[above - 1], plan.y.values[above]];
      const height = top(above - 1) + CELL_HEIGHT / 2 - (CELL_HEIGHT * (value - low)) / (high - low);
      return `M${LEFT + i * width} ${height}h${width}`;
    }),
  );
  return <path class="theory" d={lines.join('')} />;
}
