import { FAULTS_RENAMED } from '../search/fault-choice.js';
import { type Io, say } from './io.js';

/*
 * What version 0.1 called otherwise. All of it goes with the version after this one.
 */

/** Verbs. */
const VERBS: ReadonlyMap<string, string> = new Map([['guests', 'libraries']]);

const SEARCH: Readonly<Record<string, string>> = {
  drift: 'drift-allowance',
  past: 'exceed',
  'past-by': 'exceed-by',
  policy: 'profile',
  'votes-wanted': 'target-votes',
};

/** Flags, by the verb of today. */
const FLAGS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  check: SEARCH,
  campaign: { ...SEARCH, policies: 'profiles', guests: 'libraries', classes: 'fault-classes' },
  list: { policies: 'profiles' },
  sweep: { policy: 'profile' },
  risk: { policy: 'profile' },
  chaos: { torture: 'duration' },
  explore: { bug: 'mutant', states: 'max-states', allowance: 'drift-allowance' },
  libraries: { libraries: 'only', library: 'file', faults: 'fault-classes', extending: 'auto-extend' },
};

/** What a verb is called now. */
export function verbNow(verb: string): string {
  return VERBS.get(verb) ?? verb;
}

/** What a flag of a verb is called now, both without dashes before them. */
export function nameNow(verb: string, flag: string): string {
  const flags = FLAGS[verb] ?? {};
  return Object.hasOwn(flags, flag) ? (flags[flag] ?? flag) : flag;
}

/** A command line with the names of today; for each other one, a note says what it is called now. */
export function withNamesOfToday(words: readonly string[], io: Io): string[] {
  const [given, ...rest] = words;
  if (given === undefined) return [];
  // A chaos run was a benchmark that measured nothing.
  const first = given === 'bench' && rest.some((it) => /^--torture(=|$)/.test(it)) ? 'chaos' : given;
  const note = (old: string, now: string): string => {
    if (old !== now) say(io, `${old} is called ${now} now; the old name goes with the next version`);
    return now;
  };
  const verb = note(first, verbNow(first));
  let flag = '';
  const valueNow = (value: string): string =>
    flag === 'faults' || flag === 'fault-classes' ? faultsNow(value, note) : value;
  const now = rest.map((word) => {
    if (verb === 'campaign' && word === 'range') return note(word, 'rerun');
    const [, name, value] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) return valueNow(word);
    flag = nameNow(verb, name);
    const written = note(`--${name}`, `--${flag}`);
    return value === undefined ? written : `${written}=${valueNow(value)}`;
  });
  return [verb, ...now];
}

/** Amounts of faults, as in `+crash=1,skew=50ms` or with weights, with the names of today. */
function faultsNow(text: string, note: (old: string, now: string) => string): string {
  return text
    .split(/([,;])/)
    .map((part) => {
      const [, before = '', name = '', after = ''] = /^(\s*(?:\d+\*)?\s*[+-]?\s*)([a-z-]+)(.*)$/s.exec(part) ?? [];
      const now = FAULTS_RENAMED.get(name);
      return now === undefined ? part : `${before}${note(name, now)}${after}`;
    })
    .join('');
}
