import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

const QUESTIONS: readonly (readonly [question: string, words: string])[] = [
  ['How wrong may clocks run?', 'ttl drift'],
  ['How far may a clock jump?', 'step=0..500ms allowance'],
  ['How long must a crashed node stay away?', 'drift=0..1% restart-delay'],
  ['How many nodes may forget?', 'votes faulty nodes=7'],
  ['How long may a process be paused?', 'guard pause ttl=30s'],
];

/** What a map is about. */
export function MapForm(props: {
  readonly words: readonly string[];
  readonly onSweep: (words: readonly string[]) => void;
}): JSX.Element {
  const { words, onSweep } = props;
  const [text, setText] = useState(words.join(' '));
  useEffect(() => setText(words.join(' ')), [words.join(' ')]);
  const submit = (event: Event): void => {
    event.preventDefault();
    onSweep(text.trim().split(/\s+/));
  };
  return (
    <form class="controls" onSubmit={submit}>
      <h2>Where is it safe?</h2>
      <p>
        Each cell is a configuration under its optimal adversary. Two parameters make the map; others may have one
        value. Choose a cell to see its run.
      </p>
      <ul class="list">
        {QUESTIONS.map(([question, it]) => (
          <li key={it}>
            <button
              type="button"
              aria-current={it === words.join(' ') ? 'true' : undefined}
              onClick={() => onSweep(it.split(' '))}
            >
              {question}
            </button>
          </li>
        ))}
      </ul>
      <label class="field wide">
        <span>parameters</span>
        <input value={text} onInput={(it) => setText(it.currentTarget.value)} />
      </label>
      <p class="actions">
        <button type="submit" class="primary">
          Measure
        </button>
      </p>
      <p class="same">
        The same, on your machine: <code>lockstep sweep {text}</code>
      </p>
    </form>
  );
}
