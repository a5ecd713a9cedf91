import type { JSX } from 'preact';
import { formatCount } from '../../text/format.js';
import type { Windows } from './windows.js';

/** Says which part of a long run is shown, and leads to the others. */
export function WindowBar(props: {
  readonly windows: Windows;
  readonly event: number;
  readonly onGo: (seq: number) => void;
}): JSX.Element {
  const { windows, event, onGo } = props;
  const { part, fromSeq, endSeq, isOpen, problem, choose } = windows;
  const isElsewhere = event >= 0 && (event < fromSeq || event >= endSeq);
  return (
    <section class="window" aria-label="Window">
      <p>
        <strong>A window</strong> of a long run: events {formatCount(fromSeq)} to {formatCount(endSeq - 1)} of{' '}
        {formatCount(part.total)}, and what was in force before.
        {isElsewhere ? ` Event ${formatCount(event)} is ${isOpen ? 'being read' : 'not in it'}.` : ''}
      </p>
      {part.beside === null ? (
        <p>No file with the rest was written; replay --open writes one.</p>
      ) : isOpen ? (
        <p class="pager">
          <button type="button" disabled={fromSeq === 0} onClick={() => onGo(fromSeq - 1)}>
            earlier window
          </button>
          <button type="button" disabled={endSeq >= part.total} onClick={() => onGo(endSeq)}>
            later window
          </button>
          <label>
            to event{' '}
            <input
              type="number"
              min={0}
              max={part.total - 1}
              value={event < 0 ? '' : event}
              onChange={(it) => onGo(Math.min(part.total - 1, Math.max(0, Math.floor(Number(it.currentTarget.value)))))}
            />
          </label>
        </p>
      ) : (
        <p>
          <label>
            The rest is in <code>{part.beside.name}</code>, beside this page; to go there, open it:{' '}
            <input
              type="file"
              accept=".trace"
              onChange={(it) => {
                const [file] = it.currentTarget.files ?? [];
                if (file !== undefined) choose(file);
              }}
            />
          </label>
        </p>
      )}
      <p class="problem" role="status">
        {problem}
      </p>
    </section>
  );
}
