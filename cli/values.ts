import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import { integer, wholeMs } from '../scenarios/mitigation-values.js';
import { meant } from '../scenarios/nearest.js';

export { named as flag } from '../scenarios/named.js';

/** A whole number from `low` to `high`. */
export function whole(low: number, high: number): (text: string) => number {
  return (text) => integer(text, low, high);
}

/** Whole milliseconds, several with commas between. */
export function ttls(text: string): [number, ...number[]] {
  const [first = '', ...rest] = text.split(',');
  return [wholeMs(first.trim()), ...rest.map((part) => wholeMs(part.trim()))];
}

/** A duration, or `ttl` for longer than any key lives. */
export function delayOrTtl(text: string): number | 'ttl' {
  return text.trim() === 'ttl' ? 'ttl' : parseDuration(text);
}

/** Votes to wait for. */
export function votes(most: number): (text: string) => number | 'all' | 'quorum' {
  return (text) => (text === 'all' || text === 'quorum' ? text : integer(text, 1, most, 'all', 'quorum'));
}

/** One of several words. */
export function word<const T extends string>(...words: readonly T[]): (text: string) => T {
  return (text) => {
    const found = words.find((candidate) => candidate === text);
    if (found !== undefined) return found;
    throw new InputError(`${show(text)} is not one of its values; ${meant(text, words, 'they are')}`);
  };
}

/** Several of several words, with commas between. */
export function wordList<const T extends string>(what: string, words: readonly T[]): (text: string) => T[] {
  return (text) =>
    text.split(',').map((part) => {
      const found = words.find((candidate) => candidate === part.trim());
      if (found !== undefined) return found;
      throw new InputError(`${show(part.trim())} is not ${what}; ${meant(part.trim(), words, 'there are')}`);
    });
}

/** `2*this; that`: several with weights, which are 1 where they are left out. */
export function weighted(what: string): (text: string) => { readonly text: string; readonly weight: number }[] {
  return (text) => {
    const parts = text.split(';').map((part) => {
      const [, weight = '1', rest = ''] = /^\s*(?:(\d{1,3})\s*\*)?\s*(.*?)\s*$/.exec(part) ?? [];
      if (rest === '' || weight === '0')
        throw new InputError(`"${part.trim()}" is no ${what}; write it like 2*one; another`);
      return { text: rest, weight: Number(weight) };
    });
    const twice = parts.find((part, i) => parts.findIndex((other) => other.text === part.text) !== i);
    if (twice !== undefined) throw new InputError(`${show(twice.text)} is named twice; name each ${what} once`);
    return parts;
  };
}
