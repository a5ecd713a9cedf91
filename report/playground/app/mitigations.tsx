import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { MITIGATIONS, mitigate } from '../../../scenarios/mitigations.js';
import type { Address } from '../address.js';
import { messageOf } from './message-of.js';
import { type Shown, type Tried, triedOn } from './run.js';

const OUTCOMES: Readonly<Record<string, readonly [mark: string, words: string]>> = {
  safe: ['✓', 'safe with it'],
  unavailable: ['○', 'safe with it, and unavailable for a time'],
  violated: ['✗', 'violated all the same'],
};

/** What is worth trying, what came of each, and a field for any other. */
export function Mitigations(props: {
  readonly shown: Shown;
  readonly verdict: string;
  readonly settings: readonly string[];
  readonly onGo: (change: Partial<Address>) => void;
}): JSX.Element {
  const { shown, verdict, settings, onGo } = props;
  const tried = useMemo(() => triedOn(shown), [shown]);
  const others = settings.filter((it) => !tried.some(({ mitigation }) => mitigation === it));
  const set = (wanted: readonly string[]): void => onGo({ with: wanted, event: -1 });
  const toggle = (it: string): void =>
    set(settings.includes(it) ? settings.filter((other) => other !== it) : [...settings, it]);
  return (
    <section class="mitigations" aria-label="Mitigations">
      <h3>{verdict === 'violated' && settings.length === 0 ? 'What would have prevented it?' : 'What if?'}</h3>
      {tried.map((it) => (
        <Chip key={it.mitigation} tried={it} isOn={settings.includes(it.mitigation)} onToggle={toggle} />
      ))}
      {others.map((it) => (
        <button type="button" key={it} class="chip" aria-pressed="true" onClick={() => toggle(it)}>
          {it}
        </button>
      ))}
      <Another shown={shown} settings={settings} onSet={set} />
    </section>
  );
}

function Chip(props: {
  readonly tried: Tried;
  readonly isOn: boolean;
  readonly onToggle: (mitigation: string) => void;
}): JSX.Element {
  const { mitigation, verdict } = props.tried;
  const [mark, words] = OUTCOMES[verdict] ?? ['', ''];
  return (
    <button
      type="button"
      class={`chip ${verdict}`}
      aria-pressed={props.isOn}
      title={words}
      onClick={() => props.onToggle(mitigation)}
    >
      <span aria-hidden="true">{mark}</span> {mitigation}
      <span class="spoken">, {words}</span>
    </button>
  );
}

function Another(props: {
  readonly shown: Shown;
  readonly settings: readonly string[];
  readonly onSet: (settings: readonly string[]) => void;
}): JSX.Element {
  const { shown, settings, onSet } = props;
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const add = (event: Event): void => {
    event.preventDefault();
    const setting = text.trim();
    if (setting === '') return;
    try {
      [...settings, setting].reduce(mitigate, shown.schedule);
      setProblem('');
      setText('');
      onSet([...settings, setting]);
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  return (
    <>
      <form onSubmit={add}>
        <input
          class="another"
          aria-label="another mitigation"
          list="mitigations"
          value={text}
          placeholder="another: ttl=30s"
          aria-describedby="wrong-mitigation"
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <datalist id="mitigations">
          {MITIGATIONS.map(({ name, values }) => (
            <option key={name} value={`${name}=`}>
              {values}
            </option>
          ))}
        </datalist>
        <button type="submit">Try</button>
      </form>
      <span id="wrong-mitigation" class="problem" role="status">
        {problem}
      </span>
    </>
  );
}
