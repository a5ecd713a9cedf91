import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { formatDurationMs } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';
import { compare, partingSentence } from '../diff.js';
import { describeEvent } from '../event-words.js';
import { layout } from '../picture/layout.js';
import type { Opened } from './model.js';
import { PictureView } from './picture-view.js';

/** Rows before the first difference that are shown with it. */
const BEFORE = 3;
const MOST_ROWS = 200;

/** One of the two runs. */
export interface Side {
  readonly opened: Opened;
  /** What it is called beside the other one. */
  readonly name: string;
}

/** Two runs beside each other, aligned by cause; one of them is the one of the page, whose events can be picked. */
export function DiffView(props: {
  readonly a: Side;
  readonly b: Side;
  /** Which is the one of the page. */
  readonly mine: 'a' | 'b';
  /** The view of the page, for the picture of the other one. */
  readonly view: { readonly axis: string; readonly zoom: number; readonly width: number };
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { a, b, mine, view, onPick } = props;
  const comparison = useMemo(() => compare(a.opened.scene, b.opened.scene), [a.opened, b.opened]);
  const { rows, first } = comparison;
  const start = Math.max(0, first - BEFORE);
  const differing = first < 0 ? [] : rows.slice(start).filter(({ same }, index) => !same || index < BEFORE);
  const shown = differing.slice(0, MOST_ROWS);
  const other = mine === 'a' ? b : a;
  const { axis, zoom, width } = view;
  const picture = useMemo(
    () => layout(other.opened.scene, { axis, zoom, width, heading: false }),
    [other.opened, axis, zoom, width],
  );
  return (
    <section class="diff" aria-label="Difference">
      <h2>Difference</h2>
      <p>{partingSentence(comparison, sceneOf(a), sceneOf(b))}</p>
      {shown.length === 0 ? null : (
        <>
          <h3>
            {other.name}: {other.opened.verdict}
          </h3>
          <PictureView picture={picture} scene={other.opened.scene} selected={null} onPick={() => {}} />
          <div class="rows">
            <table>
              <thead>
                <tr>
                  <th scope="col">ms</th>
                  <th scope="col">who</th>
                  <th scope="col">
                    {a.name}: {a.opened.verdict}
                  </th>
                  <th scope="col">
                    {b.name}: {b.opened.verdict}
                  </th>
                </tr>
              </thead>
              <tbody>
                {shown.map((row, index) => {
                  const kind = row.same ? 'same' : start + index === first ? 'differs first' : 'differs';
                  return <Row key={`${row.a?.seq} ${row.b?.seq}`} {...{ a, b, mine, row, kind, onPick }} />;
                })}
              </tbody>
            </table>
          </div>
          {differing.length > shown.length ? <p>… {differing.length - shown.length} more that differ</p> : null}
        </>
      )}
    </section>
  );
}

function Row(props: {
  readonly a: Side;
  readonly b: Side;
  readonly mine: 'a' | 'b';
  readonly row: { readonly a: TraceEvent | null; readonly b: TraceEvent | null };
  readonly kind: string;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { a, b, mine, row, kind, onPick } = props;
  const { a: left, b: right } = row;
  const cell = (event: TraceEvent | null, side: Side, isMine: boolean, at: string): JSX.Element | string => {
    if (event === null) return '';
    const words = `${at}${describeEvent(event, side.opened.scene)}`;
    if (!isMine) return words;
    return (
      <button type="button" class="link" onClick={() => onPick(event.seq)}>
        {words}
      </button>
    );
  };
  return (
    <tr class={kind}>
      <td class="ms">{formatDurationMs((left ?? right)?.atUs ?? 0)}</td>
      <td>{(left ?? right)?.process}</td>
      <td>{cell(left, a, mine === 'a', '')}</td>
      <td>{cell(right, b, mine === 'b', later(left, right))}</td>
    </tr>
  );
}

function later(left: TraceEvent | null, right: TraceEvent | null): string {
  return left !== null && right !== null && left.atUs !== right.atUs ? `at ${formatDurationMs(right.atUs)}: ` : '';
}

function sceneOf({ opened, name }: Side): { readonly scene: Opened['scene']; readonly name: string } {
  return { scene: opened.scene, name };
}
