import type { JSX, Ref } from 'preact';
import { type Action, type keysFor, Toolbar } from './keys.js';
import type { Place } from './link.js';

/** What can be done with the page: buttons, the axis of the picture, and the filter of the table. */
export function Bar(props: {
  readonly keys: ReturnType<typeof keysFor>;
  readonly place: Place;
  readonly clients: readonly string[];
  readonly pressed: ReadonlySet<Action>;
  readonly field: Ref<HTMLInputElement>;
  readonly onAction: (action: Action) => void;
  readonly onGo: (change: Partial<Place>) => void;
}): JSX.Element {
  const { keys, place, clients, pressed, field, onAction, onGo } = props;
  return (
    <div class="bar">
      <Toolbar keys={keys} onAction={onAction} pressed={pressed} />
      <label class="axis">
        axis{' '}
        <select value={place.axis} onChange={(it) => onGo({ axis: it.currentTarget.value })}>
          {axes(clients).map((name) => (
            <option key={name} value={name}>
              {axisWords(name)}
            </option>
          ))}
        </select>
      </label>
      <label class="filter">
        filter{' '}
        <input
          ref={field}
          type="search"
          value={place.filter}
          placeholder="c1, crash, SET…"
          onInput={(it) => onGo({ filter: it.currentTarget.value })}
          onKeyDown={(it) => {
            if (it.key === 'Escape' || it.key === 'Enter') it.currentTarget.blur();
          }}
        />
      </label>
    </div>
  );
}

/** The axis after this one. */
export function nextAxis(axis: string, clients: readonly string[]): string {
  const all = axes(clients);
  return all[(all.indexOf(axis) + 1) % all.length] ?? 'folded';
}

function axes(clients: readonly string[]): string[] {
  return ['folded', 'true', 'order', ...clients];
}

function axisWords(name: string): string {
  const words: Readonly<Record<string, string>> = {
    folded: 'folded time',
    true: 'true time',
    order: 'order of events',
  };
  return words[name] ?? `as ${name} saw it`;
}
