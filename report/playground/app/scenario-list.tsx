import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Stored } from '../catalogue.js';

const MARKS: Readonly<Record<string, string>> = { violated: '✗', unavailable: '○', safe: '✓' };

/** Every scenario of the catalogue, with its outcome. */
export function ScenarioList(props: {
  readonly scenarios: readonly Stored[];
  readonly chosen: string;
  readonly onPick: (id: string) => void;
}): JSX.Element {
  const { scenarios, chosen, onPick } = props;
  const [filter, setFilter] = useState('');
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = scenarios.filter(({ id, title, story, verdict }) => {
    const text = `${id} ${title} ${story} ${verdict}`.toLowerCase();
    return words.every((it) => text.includes(it));
  });
  return (
    <div class="controls">
      <h2>
        Scenarios{' '}
        <span class="count">
          {shown.length === scenarios.length ? shown.length : `${shown.length} of ${scenarios.length}`}
        </span>
      </h2>
      <label class="field">
        <span>find</span>
        <input
          type="search"
          value={filter}
          placeholder="crash, clock, S13, safe …"
          onInput={(it) => setFilter(it.currentTarget.value)}
        />
      </label>
      <ul class="list scenarios">
        {shown.map(({ id, title, verdict }) => (
          <li key={id}>
            <button type="button" aria-current={id === chosen ? 'true' : undefined} onClick={() => onPick(id)}>
              <span class={`mark ${verdict}`} title={verdict}>
                {MARKS[verdict]}
              </span>
              <b>{id}</b> {title}
              <span class="spoken"> ({verdict})</span>
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
