import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { PROPERTY_OF } from '../libraries/search/kinds.js';
import { propertyLabel } from '../report/index.js';
import type { Defect } from './defect.js';
import type { Finding } from './result.js';

/** The file, the line and the column that a text begins with; of a line alone, where it begins. */
export function placeOf(text: string, folder: string): Finding['place'] {
  const [, name, line, column] = /^(.+?):(\d+)(?::(\d+))?(?: {3}|$)/.exec(text) ?? [];
  if (name === undefined) return null;
  const path = resolve(folder, name);
  return { path, line: Number(line), column: Number(column ?? beginningOf(path, Number(line))) };
}

/** The column of the first that is written in a line. */
function beginningOf(path: string, line: number): number {
  const text = existsSync(path) ? (readFileSync(path, 'utf8').split('\n')[line - 1] ?? '') : '';
  return Math.max(0, text.search(/\S/)) + 1;
}

/**
 * What plain use has shown.
 *
 * @param where - `lock.ts:42`.
 * @param path - Where the file is.
 */
export function shownFinding({ id, sentence, fix, brings, property }: Defect, where: string, path: string): Finding {
  const [kind = 'state'] = brings;
  return {
    id,
    property: propertyLabel(property ?? PROPERTY_OF[kind]),
    kind: null,
    sentence,
    fix,
    decidedBy: where,
    place: placeOf(where, dirname(path)),
    assumptionsBroken: [],
    text: '',
    found: null,
    recording: null,
  };
}
