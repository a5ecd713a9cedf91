import { printable } from './printable.js';

/** What a POSIX shell takes as it is. */
const PLAIN = /^[\w./:@%+,=-]+$/;

/** A word as a shell reads it back, in characters that can be seen: what cannot is escaped by `$'…'`. */
export function shellWord(word: string): string {
  if (PLAIN.test(word)) return word;
  // Of no text at all, nothing would be left without quotes.
  if (printable(word) === word) return `'${word.replaceAll("'", "'\\''")}'`;
  const inside = [...word].map((it) => {
    if (it === "'" || it === '\\') return `\\${it}`;
    return printable(it) === it ? it : octal(it);
  });
  return `$'${inside.join('')}'`;
}

/** A command as it can be pasted into a shell: `command` as it is, and the words behind it. */
export function shellCommand(command: string, ...words: readonly string[]): string {
  return [command, ...words.map(shellWord)].join(' ');
}

/** Bytes of UTF-8, in the one form that all shells with `$'…'` read alike. */
function octal(character: string): string {
  return [...new TextEncoder().encode(character)].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('');
}
