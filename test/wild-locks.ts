import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/* The sets of locks in `wild/`, with their verdicts. */

const FOLDER = new URL('wild/', import.meta.url);

/** A lock as somebody wrote it. */
export interface WildLock {
  readonly file: string;
  readonly verdict: 'right' | 'wrong';
  readonly promise?: 'single' | 'redlock' | 'fenced' | 'guard';
  /** The promise that its audit has to judge, as `--json` names it; any where this is left out. */
  readonly judged?: string;
  /** Of a wrong one: a sentence. */
  readonly defect?: string;
  /** Of a wrong one: patterns that any true text on its defect matches. */
  readonly words?: readonly string[];
  /** Why its audit does not come to this verdict yet. */
  readonly open?: string;
}

/** The path of the folder of a set, with a slash at its end. */
export function folderOf(set: string): string {
  return fileURLToPath(new URL(`${set}/`, FOLDER));
}

/** The locks of a set. */
export function locksOf(set: string): readonly WildLock[] {
  return (JSON.parse(readFileSync(`${folderOf(set)}verdicts.json`, 'utf8')) as { locks?: WildLock[] }).locks ?? [];
}

/** The names of all sets of locks; others are of clients. */
export function setsOfLocks(): readonly string[] {
  const names = readdirSync(FOLDER).filter((it) => existsSync(`${folderOf(it)}verdicts.json`));
  return names.filter((it) => locksOf(it).length > 0);
}
