import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { formatDurationMs } from '../../scenarios/index.js';
import { compare, partingSentence } from '../diff.js';
import { eventWords } from '../event-words.js';
import type { Opened } from './model.js';

/** Rows before the first difference that are shown with it. */
const BEFORE = 3;
const MOST_ROWS = 200;

/** The run as it was written beside the run with the settings, aligned by cause. */
export function DiffView(props: {
  readonly before: Opened;
  readonly after: Opened;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { before, after, onPick } = props;
  const comparison = useMemo(() => compare(before.scene, after.scene), [before, after]);
  const { rows, first } = comparison;
  const start = Math.max(0, first - BEFORE);
  const shown =
    first < 0
      ? []
      : rows
          .slice(start)
          .filter(({ same }, index) => !same || index < BEFORE)
          .slice(0, MOST_ROWS);
  return (
    <section class="diff" aria-label="Difference">
      <h2>Difference</h2>
      <p>{partingSentence(comparison, before.scene, after.scene)}</p>
      {shown.length === 0 ? null : (
        <table>
          <thead>
            <tr>
              <th scope="col">ms</th>
              <th scope="col">who</th>
              <th scope="col">as written: {before.verdict}</th>
              <th scope="col">
                with {after.settings.join(', ')}: {after.verdict}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ a, b, same }) => (
              <tr key={`${a?.seq} ${b?.seq}`} class={same ? 'same' : 'differs'}>
                <td class="ms">{formatDurationMs((a ?? b)?.atUs ?? 0)}</td>
                <td>{(a ?? b)?.process}</td>
                <td>{a === null ? '–' : eventWords(a, before.scene)}</td>
                <td>
                  {b === null ? (
                    '–'
                  ) : (
                    <button type="button" class="link" onClick={() => onPick(b.seq)}>
                      {a !== null && a.atUs !== b.atUs ? `at ${formatDurationMs(b.atUs)}: ` : ''}
                      {eventWords(b, after.scene)}
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
