import { RequestParser } from '../../wire/index.js';
import { fromBytes, isAscii } from '../redis/bytes.js';

/** Commands that a node carries out with nothing in between. */
export type Group = readonly (readonly string[])[];

/** What was written last, and the commands in it: a lock of several nodes sends each of them the same. */
let latest: { readonly bytes: string; readonly groups: readonly Group[] } | null = null;

/** Finds the commands in what a client writes: each is a message of its own, a transaction that is written at once one. */
export class Requests {
  private readonly parser = new RequestParser();
  /** Whether all that was written so far is. */
  isAscii = true;

  /** Adds what was written at once, in Latin-1. Gives the commands that are whole by now. */
  take(bytes: string): readonly Group[] {
    const { isEmpty } = this.parser;
    if (isEmpty && this.isAscii && latest?.bytes === bytes) return latest.groups;
    this.parser.feed(bytes);
    this.isAscii &&= isAscii(bytes);
    const groups = this.read();
    if (isEmpty && this.isAscii && this.parser.isEmpty) latest = { bytes, groups };
    return groups;
  }

  private read(): readonly Group[] {
    const groups: string[][][] = [];
    let open: string[][] | null = null;
    for (let words = this.parser.next(true); Array.isArray(words); words = this.parser.next(true)) {
      const command = this.isAscii ? words : words.map(fromBytes);
      if (open !== null) open.push(command);
      else groups.push([command]);
      const name = (command[0] ?? '').toLowerCase();
      if (name === 'multi') open = groups.at(-1) ?? null;
      else if (name === 'exec' || name === 'discard') open = null;
    }
    return groups;
  }
}
