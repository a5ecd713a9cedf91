import { MOST_NODES } from '../../core/index.js';
import { parseDuration } from '../../scenarios/duration.js';
import { integer, oneOf, percent, wholeMs } from '../../scenarios/mitigation-values.js';
import { named } from '../../scenarios/named.js';
import { faultChoice } from '../../search/fault-choice.js';
import { WITHIN_ASSUMPTIONS } from '../../search/fault-model.js';
import type { SearchPlan } from '../../search/range.js';
import { type SearchSettings, searchOf } from '../../search/settings.js';

/** Flags of `check`, as texts, by their names without dashes. */
export type SearchTexts = Readonly<Record<string, string>>;

/** What the page searches first: what `check --demo` does. */
export const DEMONSTRATION_TEXTS: SearchTexts = {
  nodes: '5',
  clients: '2',
  ttl: '10s',
  persistence: 'none',
  'restart-delay': '0',
  faults: 'crash=1,partition=1,loss=2%',
  seed: '1',
  runs: '1000',
};

/** A search of the page. */
export interface PageSearch {
  readonly plan: SearchPlan;
  readonly runs: number;
}

const USUAL_RUNS = 10_000;
/** More take minutes in one worker. */
const MOST_RUNS = 100_000;
const MOST_CLIENTS = 8;

const READERS: Readonly<Record<string, (text: string) => SearchSettings>> = {
  nodes: (text) => ({ nodes: integer(text, 1, MOST_NODES) }),
  clients: (text) => ({ clients: integer(text, 1, MOST_CLIENTS) }),
  ttl: (text) => ({ ttl: [wholeMs(text)] }),
  'drift-allowance': (text) => ({ driftAllowance: percent(text) }),
  persistence: (text) => ({
    persistence: oneOf(text, { none: 'none', rdb: 'rdb', everysec: 'everysec', always: 'always' }),
  }),
  'restart-delay': (text) => ({ restartDelay: text === 'ttl' ? 'ttl' : parseDuration(text) }),
  profile: (text) => ({ profile: text }),
  faults: (text) => ({ faults: faultChoice(text) }),
};

/**
 * Reads what a search is to do; the same flags of `check` make the same runs.
 *
 * @throws InputError in one sentence if a text makes no sense.
 */
export function pageSearchOf(texts: SearchTexts): PageSearch {
  let settings: SearchSettings = {};
  for (const [name, read] of Object.entries(READERS)) {
    const text = texts[name]?.trim() ?? '';
    if (text !== '') settings = { ...settings, ...named(name, read)(text) };
  }
  const { seed = '1', runs = '' } = texts;
  return {
    plan: { ...searchOf(settings, WITHIN_ASSUMPTIONS), seed, strategy: 'combination' },
    runs: runs.trim() === '' ? USUAL_RUNS : named('runs', (text) => integer(text, 1, MOST_RUNS))(runs),
  };
}

/** The command that makes the same search. */
export function checkCommand(texts: SearchTexts): string {
  const flags = Object.entries(texts).flatMap(([name, text]) =>
    text.trim() === '' ? [] : [`--${name === 'profile' ? 'policy' : name} ${quoted(text.trim())}`],
  );
  return ['lockstep check', ...flags].join(' ');
}

function quoted(text: string): string {
  return /^[\w%.,=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
