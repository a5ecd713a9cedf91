import type { JSX } from 'preact';
import { type Action, type keysFor, Toolbar } from './keys.js';
import type { Place } from './link.js';
import { SPEEDS } from './use-play.js';

/** What can be done with the page: buttons, how fast it plays, and the axis of the picture. */
export function Bar(props: {
  readonly keys: ReturnType<typeof keysFor>;
  readonly place: Place;
  readonly clients: readonly string[];
  readonly pressed: ReadonlySet<Action>;
  /** Retries that the picture draws as one. */
  readonly folded: number;
  /** Events a second. */
  readonly speed: number;
  readonly onSpeed: (speed: number) => void;
  readonly onAction: (action: Action) => void;
  readonly onGo: (change: Partial<Place>) => void;
}): JSX.Element {
  const { keys, place, clients, pressed, folded, speed, onSpeed, onAction, onGo } = props;
  return (
    <div class="bar">
      <Toolbar keys={keys} onAction={onAction} pressed={pressed} />
      <label>
        speed{' '}
        <select value={String(speed)} onChange={(it) => onSpeed(Number(it.currentTarget.value))}>
          {SPEEDS.map((it) => (
            <option key={it} value={String(it)}>
              {it} a second
            </option>
          ))}
        </select>
      </label>
      <label>
        time{' '}
        <select value={place.axis} onChange={(it) => onGo({ axis: it.currentTarget.value })}>
          {axes(clients).map((name) => (
            <option key={name} value={name}>
              {axisWords(name)}
            </option>
          ))}
        </select>
      </label>
      {folded === 0 && !place.all ? null : (
        <button type="button" aria-pressed={place.all} onClick={() => onAction('retries')}>
          {place.all ? 'all retries' : `all retries (${folded} are folded)`} <kbd>r</kbd>
        </button>
      )}
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
    folded: 'quiet times short',
    true: 'true to scale',
    order: 'order of events',
  };
  return words[name] ?? `as ${name} saw it`;
}
