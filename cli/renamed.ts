import { PROPERTIES_OF_0_1 } from '../scenarios/old-names.js';
import { type Io, say } from './io.js';

/*
 * What version 0.1 called otherwise. All of it goes with the version after this one.
 */

type Names = Readonly<Record<string, string>>;

/** Verbs, also of campaigns. */
const VERBS: Names = { guests: 'libraries', range: 'rerun' };

const SEARCH: Names = {
  drift: 'drift-allowance',
  past: 'exceed',
  'past-by': 'exceed-by',
  policy: 'profile',
  'votes-wanted': 'target-votes',
};

/** Flags, by the verb of today. */
const FLAGS: Readonly<Record<string, Names>> = {
  check: SEARCH,
  campaign: { ...SEARCH, policies: 'profiles', guests: 'libraries', classes: 'fault-classes' },
  list: { policies: 'profiles' },
  sweep: { policy: 'profile' },
  risk: { policy: 'profile' },
  chaos: { torture: 'duration' },
  explore: { bug: 'mutant', states: 'max-states', allowance: 'drift-allowance' },
  libraries: { libraries: 'only', library: 'file', faults: 'fault-classes', extending: 'auto-extend' },
};

/** Faults, in the values of these flags. */
const FAULTS: Names = {
  forget: 'data-loss',
  refuse: 'error-replies',
  lag: 'replica-lag',
  skew: 'clock-step',
  rate: 'clock-drift',
};

const BOUNDS: Names = {
  rate: 'clock-drift',
  step: 'clock-step',
  restart: 'restart-delay',
  forget: 'data-loss',
  late: 'write-delay',
};

/** Values, by the flag of today. */
const VALUES: Readonly<Record<string, Names>> = {
  faults: FAULTS,
  'fault-classes': FAULTS,
  properties: PROPERTIES_OF_0_1,
  property: PROPERTIES_OF_0_1,
  exceed: BOUNDS,
};

/** Parameters of `sweep`. */
const PARAMETERS: Names = {
  allowance: 'drift-allowance',
  extra: 'fixed-allowance',
  faulty: 'faulty-voters',
  down: 'nodes-down',
  pause: 'write-delay',
};

function nowIn(names: Names, name: string): string {
  return Object.hasOwn(names, name) ? (names[name] ?? name) : name;
}

/** What a verb is called now. */
export function verbNow(verb: string): string {
  return nowIn(VERBS, verb);
}

/** What a flag of a verb is called now, both without dashes before them. */
export function nameNow(verb: string, flag: string): string {
  return nowIn(FLAGS[verb] ?? {}, flag);
}

/**
 * The value of a flag with the names of today, such as `+crash=1,clock-step=50ms` or, with weights, `2*crash=1; loss=2%`.
 *
 * @param note - Receives each name that is another one now.
 */
export function valueNow(flag: string, value: string, note: (old: string, now: string) => void = () => {}): string {
  const names = VALUES[flag];
  return names === undefined ? value : withNamesNow(names, value, note);
}

function withNamesNow(names: Names, value: string, note: (old: string, now: string) => void): string {
  return value.replace(/((?:^|[,;])\s*(?:\d+\*)?\s*[+-]?\s*)([a-z-]+)/g, (_, before: string, name: string) => {
    note(name, nowIn(names, name));
    return `${before}${nowIn(names, name)}`;
  });
}

/** A command line with the names of today; for each other one, a note says what it is called now. */
export function withNamesOfToday(words: readonly string[], io: Io): string[] {
  const [given, ...rest] = words;
  if (given === undefined) return [];
  const note = (old: string, now: string): string => {
    if (old !== now) say(io, `${old} is called ${now} now; the old name goes with the next version`);
    return now;
  };
  // A chaos run was a benchmark that measured nothing.
  const isChaos = given === 'bench' && rest.some((it) => /^--torture(=|$)/.test(it));
  const verb = isChaos ? 'chaos' : note(given, verbNow(given));
  let flag = '';
  const now = rest.map((word, i) => {
    const [, name, value] = /^--([a-z-]+)(?:=(.*))?$/s.exec(word) ?? [];
    if (name === undefined) {
      const isVerb = verb === 'campaign' && i === 0;
      const isParameter = verb === 'sweep' && flag === '';
      const value = isParameter ? withNamesNow(PARAMETERS, word, note) : valueNow(flag, word, note);
      const written = isVerb ? note(word, verbNow(word)) : value;
      flag = '';
      return written;
    }
    const written = nameNow(verb, name);
    note(`--${name}`, `--${written}`);
    flag = value === undefined ? written : '';
    return value === undefined ? `--${written}` : `--${written}=${valueNow(written, value, note)}`;
  });
  return [verb, ...now];
}
