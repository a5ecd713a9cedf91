import type { JSX } from 'preact';
import type { Payload } from '../payload.js';
import type { Move } from './model.js';

/** What a key or its button does: a step, or something to switch. */
export type Action = Move | 'axis' | 'diff' | 'filter' | 'help' | 'wider' | 'narrower';

interface KeyInfo {
  readonly key: string;
  /** As it stands on the button. */
  readonly face: string;
  readonly action: Action;
  readonly words: string;
  /** Beside the key on its button: of those that people look for. */
  readonly label?: string;
}

/** Every key, in the order of the buttons. */
const KEYS: readonly KeyInfo[] = [
  { key: 'ArrowLeft', face: '←', action: 'back', words: 'event before' },
  { key: 'ArrowRight', face: '→', action: 'next', words: 'next event' },
  { key: '[', face: '[', action: 'laneBack', words: 'event before in this lane' },
  { key: ']', face: ']', action: 'laneNext', words: 'next event in this lane' },
  { key: 'v', face: 'v', action: 'violation', words: 'violation', label: 'violation' },
  { key: 'p', face: 'p', action: 'faultBack', words: 'fault before' },
  { key: 'n', face: 'n', action: 'faultNext', words: 'next fault', label: 'fault' },
  { key: 'm', face: 'm', action: 'other', words: 'other end of the message', label: 'message' },
  { key: 'c', face: 'c', action: 'cause', words: 'cause', label: 'cause' },
  { key: 'x', face: 'x', action: 'axis', words: 'axis' },
  { key: '-', face: '−', action: 'narrower', words: 'narrower' },
  { key: '+', face: '+', action: 'wider', words: 'wider' },
  { key: 'd', face: 'd', action: 'diff', words: 'difference', label: 'diff' },
  { key: '/', face: '/', action: 'filter', words: 'filter' },
  { key: '?', face: '?', action: 'help', words: 'keys', label: 'keys' },
];

/** Keys of a page: what cannot be run again has nothing to be compared with. */
export function keysFor(source: Payload['source']): readonly KeyInfo[] {
  return source.kind === 'schedule' ? KEYS : KEYS.filter(({ action }) => action !== 'diff');
}

/** The action of a key, if nothing else wants it. */
export function actionOf(event: KeyboardEvent, keys: readonly KeyInfo[]): Action | undefined {
  if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const { target } = event;
  if (target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return undefined;
  return keys.find(({ key }) => key === event.key)?.action;
}

/** A button for each key. */
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
      {keys.map(({ face, action, words, label }) => (
        <button
          type="button"
          key={action}
          title={`${words} (${face})`}
          aria-label={label === undefined ? words : undefined}
          aria-pressed={action === 'diff' || action === 'help' ? pressed.has(action) : undefined}
          onClick={() => onAction(action)}
        >
          <kbd>{face}</kbd> {label}
        </button>
      ))}
    </div>
  );
}

/** What each key does. */
export function Help({ keys }: { readonly keys: readonly KeyInfo[] }): JSX.Element {
  return (
    <section class="help" aria-label="Keys">
      <h2>Keys</h2>
      <dl>
        {keys.map(({ face, words, action }) => (
          <div key={action}>
            <dt>
              <kbd>{face}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
