import type { ComponentChildren, JSX, Ref } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { formatDurationMs } from '../../scenarios/index.js';
import { describeEvent } from '../event-words.js';
import type { Scene } from '../picture/scene.js';

/** Rows that are in the page at once. */
const PAGE = 120;

/** All events as a table: what the picture shows, for those who read. Long ones are shown a page at a time. */
export function EventTable(props: {
  readonly scene: Scene;
  /** Places of the events that the filter leaves. */
  readonly shown: readonly number[];
  /** Place of the selected event. */
  readonly at: number;
  readonly onPick: (seq: number) => void;
  /** Stands beside the heading. */
  readonly children?: ComponentChildren;
}): JSX.Element {
  const { scene, shown, at, onPick, children } = props;
  const place = useMemo(() => shown.indexOf(at), [shown, at]);
  const start = Math.max(0, Math.floor(Math.max(0, place) / PAGE) * PAGE);
  const page = shown.slice(start, start + PAGE);
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    const row = box.current?.querySelector('[aria-current]');
    const frame = box.current;
    if (!(row instanceof HTMLElement) || frame === null) return;
    const top = row.offsetTop - frame.clientHeight / 2;
    if (row.offsetTop < frame.scrollTop + 40 || row.offsetTop > frame.scrollTop + frame.clientHeight - 60)
      frame.scrollTop = top;
  }, [at, start]);
  const pick = (index: number): void => onPick(scene.events[shown[index] ?? 0]?.seq ?? 0);
  return (
    <section class="events" aria-label="Trace">
      {children}
      <h2>
        Trace{' '}
        <span class="count">
          {shown.length === scene.events.length ? shown.length : `${shown.length} of ${scene.events.length}`}
        </span>
      </h2>
      {/* A region that scrolls has to be reachable by keyboard. */}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: see above */}
      <section class="rows" ref={box} aria-label="Table of events, scrolls" tabIndex={0}>
        <table aria-rowcount={shown.length}>
          <thead>
            <tr>
              <th scope="col">ms</th>
              <th scope="col">who</th>
              <th scope="col">what</th>
            </tr>
          </thead>
          <tbody>
            {page.map((index, row) => {
              const event = scene.events[index];
              if (event === undefined) return null;
              const words = describeEvent(event, scene);
              const selected = index === at;
              return <Row key={event.seq} {...{ event, words, selected, onPick }} place={start + row + 1} />;
            })}
          </tbody>
        </table>
      </section>
      {shown.length <= PAGE ? null : (
        <p class="pager">
          <button type="button" disabled={start === 0} onClick={() => pick(start - 1)}>
            earlier
          </button>
          events {start + 1} to {Math.min(start + PAGE, shown.length)}
          <button type="button" disabled={start + PAGE >= shown.length} onClick={() => pick(start + PAGE)}>
            later
          </button>
        </p>
      )}
    </section>
  );
}

/** Leaves rows out that do not have its words. */
export function Filter(props: {
  readonly field: Ref<HTMLInputElement>;
  readonly text: string;
  readonly onText: (text: string) => void;
}): JSX.Element {
  const { field, text, onText } = props;
  return (
    <label class="filter">
      filter{' '}
      <input
        ref={field}
        type="search"
        value={text}
        placeholder="c1, crash, SET…"
        onInput={(it) => onText(it.currentTarget.value)}
        onKeyDown={(it) => {
          if (it.key === 'Escape' || it.key === 'Enter') it.currentTarget.blur();
        }}
      />
    </label>
  );
}

function Row(props: {
  readonly event: Scene['events'][number];
  readonly words: string;
  /** Among all rows of the table, from 1 on. */
  readonly place: number;
  readonly selected: boolean;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { event, words, place, selected, onPick } = props;
  return (
    <tr aria-rowindex={place} aria-current={selected ? 'true' : undefined}>
      <td class="ms">{formatDurationMs(event.atUs)}</td>
      <td>{event.process}</td>
      <td>
        <button type="button" class="link" onClick={() => onPick(event.seq)}>
          {words}
        </button>
      </td>
    </tr>
  );
}
