import type { JSX } from 'preact';
import type { Payload } from '../payload.js';
import type { Move } from './model.js';

/** What a key or its button does: a step, or something to switch. */
export type Action = Move | 'play' | 'axis' | 'diff' | 'filter' | 'help' | 'wider' | 'narrower' | 'retries' | 'close';

interface KeyInfo {
  readonly key: string;
  /** As it stands on the button. */
  readonly face: string;
  readonly action: Action;
  readonly words: string;
  /** On its button in the toolbar; what has none is in the list of keys only. */
  readonly label?: string;
}

/** Every key, in the order of the buttons. */
const KEYS: readonly KeyInfo[] = [
  { key: 'ArrowLeft', face: '←', action: 'back', words: 'event before', label: 'back' },
  { key: 'ArrowRight', face: '→', action: 'next', words: 'next event', label: 'next' },
  { key: ' ', face: 'space', action: 'play', words: 'play, or stop', label: 'play' },
  { key: 'v', face: 'v', action: 'violation', words: 'next violation', label: 'violation' },
  { key: 'n', face: 'n', action: 'faultNext', words: 'next fault', label: 'next fault' },
  { key: 'c', face: 'c', action: 'cause', words: 'cause of the event', label: 'cause' },
  { key: 'm', face: 'm', action: 'other', words: 'other end of the message', label: 'other end' },
  { key: 'p', face: 'p', action: 'faultBack', words: 'fault before' },
  { key: '[', face: '[', action: 'laneBack', words: 'event before in this lane' },
  { key: ']', face: ']', action: 'laneNext', words: 'next event in this lane' },
  { key: '-', face: '−', action: 'narrower', words: 'narrower picture', label: 'narrower' },
  { key: '+', face: '+', action: 'wider', words: 'wider picture', label: 'wider' },
  { key: 'd', face: 'd', action: 'diff', words: 'compare with the run as written', label: 'compare' },
  { key: 'x', face: 'x', action: 'axis', words: 'next axis of time' },
  { key: 'r', face: 'r', action: 'retries', words: 'draw equal retries one by one, or as one' },
  { key: '/', face: '/', action: 'filter', words: 'filter the events' },
  { key: '?', face: '?', action: 'help', words: 'all keys', label: 'keys' },
  { key: 'Escape', face: 'esc', action: 'close', words: 'close what is open' },
];

/** Keys of a page: what cannot be run again has nothing to be compared with. */
export function keysFor(source: Payload['source']): readonly KeyInfo[] {
  return source.kind === 'schedule' ? KEYS : KEYS.filter(({ action }) => action !== 'diff');
}

/** The action of a key, if nothing else wants it. */
export function actionOf(event: KeyboardEvent, keys: readonly KeyInfo[]): Action | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const { target } = event;
  if (target instanceof HTMLElement) {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return undefined;
    // A space presses what it is on.
    if (event.key === ' ' && /^(BUTTON|SUMMARY|A)$/.test(target.tagName)) return undefined;
  }
  return keys.find(({ key }) => key === event.key)?.action;
}

const SWITCHES: readonly Action[] = ['diff', 'help', 'play'];

/** Buttons in words, with their keys beside. */
export function Toolbar({
  keys,
  onAction,
  pressed,
}: {
  readonly keys: readonly KeyInfo[];
  readonly onAction: (action: Action) => void;
  readonly pressed: ReadonlySet<Action>;
}): JSX.Element {
  return (
    <div class="toolbar" role="toolbar" aria-label="Steps">
      {keys
        .filter(({ label }) => label !== undefined)
        .map(({ face, action, words, label }) => (
          <button
            type="button"
            key={action}
            title={`${words} (${face})`}
            aria-pressed={SWITCHES.includes(action) ? pressed.has(action) : undefined}
            onClick={() => onAction(action)}
          >
            {label} <kbd>{face}</kbd>
          </button>
        ))}
    </div>
  );
}

/** What each key does, and a button for it. */
export function Help({
  keys,
  onAction,
}: {
  readonly keys: readonly KeyInfo[];
  readonly onAction: (action: Action) => void;
}): JSX.Element {
  return (
    <section class="help" aria-label="Keys">
      <h2>Keys</h2>
      <ul>
        {keys.map(({ face, words, action }) => (
          <li key={action}>
            <button type="button" class="link" onClick={() => onAction(action)}>
              <kbd>{face}</kbd> {words}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
