import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { PROFILES } from '../../../deviations/index.js';
import { checkCommand, DEMONSTRATION_TEXTS, type SearchTexts } from '../settings.js';

/** A fault that can be ticked, as `--faults` names it. */
interface Offered {
  readonly name: string;
  readonly words: string;
  /** What the box stands for. */
  readonly amount: string;
}

const FAULTS: readonly Offered[] = [
  { name: 'crash', words: 'a node crashes', amount: '1' },
  { name: 'power-loss', words: 'a node loses its power', amount: '1' },
  { name: 'forget', words: 'a node loses its keys (FLUSHALL)', amount: '1' },
  { name: 'failover', words: 'a replica takes over', amount: '1' },
  { name: 'refuse', words: 'a node answers with errors', amount: '1' },
  { name: 'skew', words: 'clocks jump', amount: '500ms' },
  { name: 'rate', words: 'clocks run wrong', amount: '1%' },
  { name: 'pause', words: 'a client is frozen', amount: '1' },
  { name: 'suspend', words: 'a machine is suspended', amount: '1' },
  { name: 'client-crash', words: 'a client dies', amount: '1' },
  { name: 'partition', words: 'the network is cut', amount: '1' },
  { name: 'loss', words: 'messages are lost', amount: '2%' },
  { name: 'duplicate', words: 'messages come twice', amount: '2%' },
  { name: 'delay', words: 'messages are late', amount: '2%' },
];

/** `crash=1,loss=2%` by name. */
function amountsOf(text: string): Map<string, string> {
  const parts = text === 'none' ? [] : text.split(',').filter(Boolean);
  return new Map(parts.map((it) => [it.split('=')[0] ?? '', it.split('=').slice(1).join('=')]));
}

/** What is searched, and the command that makes the same search. */
export function SearchForm(props: {
  readonly texts: SearchTexts;
  readonly onSearch: (texts: SearchTexts) => void;
}): JSX.Element {
  const { texts: given, onSearch } = props;
  const [texts, setTexts] = useState(given);
  useEffect(() => setTexts(given), [JSON.stringify(given)]);
  const set = (name: string, value: string): void => setTexts((now) => ({ ...now, [name]: value }));
  const faults = amountsOf(texts.faults ?? '');
  const crashes = faults.has('crash') || faults.has('power-loss');
  // Where no node goes down there is nothing to come back from.
  const wanted = crashes ? texts : { ...texts, 'restart-delay': '' };
  const submit = (event: Event): void => {
    event.preventDefault();
    onSearch(wanted);
  };
  const field = { texts, set };
  return (
    <form class="controls" onSubmit={submit}>
      <h2>Your system</h2>
      <div class="fields">
        <Field {...field} name="nodes" words="nodes" hint="5" />
        <Field {...field} name="clients" words="clients" hint="3" />
        <Field {...field} name="ttl" words="TTL" hint="10s" />
        <Field {...field} name="drift-allowance" words="drift allowance" hint="1%" />
        <Select {...field} name="persistence" words="persistence" options={PERSISTENCE} />
        <Field {...field} name="restart-delay" words="restart delay" hint="as long as is safe" disabled={!crashes} />
        <Select {...field} name="profile" words="client" options={CLIENTS} />
      </div>
      <Faults faults={faults} onChange={(it) => set('faults', it)} />
      <div class="fields">
        <Field {...field} name="seed" words="seed" hint="1" />
        <Field {...field} name="runs" words="schedules" hint="10000" />
      </div>
      <p class="actions">
        <button type="submit" class="primary">
          Search
        </button>
        <button type="button" onClick={() => onSearch(DEMONSTRATION_TEXTS)}>
          Demonstration
        </button>
      </p>
      <p class="same">
        The same search, on your machine: <code>{checkCommand(wanted)}</code>
      </p>
    </form>
  );
}

function Faults(props: {
  readonly faults: ReadonlyMap<string, string>;
  readonly onChange: (faults: string) => void;
}): JSX.Element {
  const { faults, onChange } = props;
  const tick = (name: string, amount: string | null): void => {
    const next = new Map(faults);
    if (amount === null) next.delete(name);
    else next.set(name, amount);
    const all = [...next].map(([it, of]) => (of === '' ? it : `${it}=${of}`)).join(',');
    onChange(all === '' ? 'none' : all);
  };
  return (
    <fieldset>
      <legend>What may go wrong</legend>
      {FAULTS.map(({ name, words, amount }) => (
        <div class="fault" key={name}>
          <label>
            <input
              type="checkbox"
              checked={faults.has(name)}
              onChange={(it) => tick(name, it.currentTarget.checked ? amount : null)}
            />{' '}
            {words}
          </label>
          {faults.has(name) ? (
            <input
              aria-label={`${words}: how much`}
              value={faults.get(name)}
              onInput={(it) => tick(name, it.currentTarget.value)}
            />
          ) : null}
        </div>
      ))}
    </fieldset>
  );
}

interface FieldProps {
  readonly texts: SearchTexts;
  readonly set: (name: string, value: string) => void;
  readonly name: string;
  readonly words: string;
}

function Field(props: FieldProps & { readonly hint: string; readonly disabled?: boolean }): JSX.Element {
  const { texts, set, name, words, hint, disabled = false } = props;
  return (
    <label class="field">
      <span>{words}</span>
      <input
        value={texts[name] ?? ''}
        placeholder={hint}
        disabled={disabled}
        onInput={(it) => set(name, it.currentTarget.value)}
      />
    </label>
  );
}

const PERSISTENCE = [
  ['none', 'none: a crash forgets'],
  ['rdb', 'rdb: the last dump'],
  ['everysec', 'everysec: AOF'],
  ['always', 'always: AOF, fsync always'],
] as const;

const CLIENTS = Object.keys(PROFILES).map((it) => [it === 'reference' ? '' : it, it] as const);

function Select(
  props: FieldProps & { readonly options: readonly (readonly [value: string, words: string])[] },
): JSX.Element {
  const { texts, set, name, words, options } = props;
  const [[usual] = ['']] = options;
  const value = texts[name] ?? usual;
  return (
    <label class="field">
      <span>{words}</span>
      <select value={value} onChange={(it) => set(name, it.currentTarget.value)}>
        {options.map(([it, said]) => (
          <option key={it} value={it} selected={it === value}>
            {said}
          </option>
        ))}
      </select>
    </label>
  );
}
