import type { CoreMutant } from './instrument.js';

/** What a file of the repository says about a mutant that survives. */
interface Survivor {
  readonly key: string;
  /** Whether nothing can tell it from the original. */
  readonly equivalent: boolean;
  readonly why: string;
}

/** What names a mutant as long as its code stays: `core/extend.ts decide: yes >= needed → yes > needed`. */
export function keysOf(mutants: readonly CoreMutant[]): Map<number, string> {
  const seen = new Map<string, number>();
  return new Map(
    mutants.map(({ id, file, within, original, replacement }) => {
      const name = `${file} ${within}: ${original} → ${replacement === '' ? '(removed)' : replacement}`;
      const count = (seen.get(name) ?? 0) + 1;
      seen.set(name, count);
      return [id, count === 1 ? name : `${name} (${count})`];
    }),
  );
}

const ENTRY = /^- `(.+)`\\?\n {2}(equivalent|alive): (.+(?:\n {2}.+)*)$/gm;

/** The survivors that a text lists, each as "- `key`" with a line of explanation below. */
export function readSurvivors(text: string): Survivor[] {
  return [...text.matchAll(ENTRY)].map(([, key = '', word, why = '']) => ({
    key,
    equivalent: word === 'equivalent',
    why: why.replace(/\s+/g, ' '),
  }));
}
