import { type Io, say } from './io.js';

/** Flags of version 0.1, each after its verb, and what they are now. They go with the version after this one. */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ['check drift', 'drift-allowance'],
  ['campaign drift', 'drift-allowance'],
]);

/** What a flag of a verb is called now, both without dashes before them. */
export function nameNow(verb: string, flag: string): string {
  return RENAMED.get(`${verb} ${flag}`) ?? flag;
}

/** A command line with the flags of today; for each other one, a note says what it is called now. */
export function withNamesOfToday(words: readonly string[], io: Io): string[] {
  const [verb = '', ...rest] = words;
  const now = rest.map((word) => {
    const [, flag, value = ''] = /^--([a-z-]+)(=.*)?$/s.exec(word) ?? [];
    if (flag === undefined || nameNow(verb, flag) === flag) return word;
    const name = `--${nameNow(verb, flag)}`;
    say(io, `--${flag} is called ${name} now; the old name goes with the next version`);
    return `${name}${value}`;
  });
  return words.length === 0 ? [] : [verb, ...now];
}
