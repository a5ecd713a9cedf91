import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Mitigation } from '../../scenarios/index.js';

/** Switches for mitigations, and a field for any other one with its parameters. */
export function Settings(props: {
  readonly offered: readonly string[];
  /** All that can be typed. */
  readonly known: readonly Pick<Mitigation, 'name' | 'values'>[];
  readonly settings: readonly string[];
  /** What is wrong with what was typed; empty if nothing. */
  readonly onChange: (settings: readonly string[]) => string;
}): JSX.Element {
  const { offered, known, settings, onChange } = props;
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const all = [...new Set([...offered, ...settings])];
  const toggle = (it: string): void => {
    setProblem(onChange(settings.includes(it) ? settings.filter((other) => other !== it) : [...settings, it]));
  };
  const add = (event: Event): void => {
    event.preventDefault();
    const setting = text.trim();
    if (setting === '') return;
    const wrong = onChange([...settings.filter((it) => nameOf(it) !== nameOf(setting)), setting]);
    setProblem(wrong);
    if (wrong === '') setText('');
  };
  return (
    <section class="settings" aria-label="Mitigations">
      <h2>What if?</h2>
      <div class="switches">
        {all.map((it) => (
          <button type="button" key={it} aria-pressed={settings.includes(it)} onClick={() => toggle(it)}>
            {it}
          </button>
        ))}
      </div>
      <form onSubmit={add}>
        <label>
          another{' '}
          <input
            list="mitigations"
            value={text}
            placeholder="ttl=30s"
            aria-describedby="problem"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <datalist id="mitigations">
          {known.map(({ name, values }) => (
            <option key={name} value={`${name}=`}>
              {values}
            </option>
          ))}
        </datalist>
        <button type="submit">try</button>
        <span id="problem" class="problem" role="status">
          {problem}
        </span>
      </form>
    </section>
  );
}

function nameOf(setting: string): string {
  return setting.split('=')[0] ?? '';
}
