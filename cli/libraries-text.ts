import type { MatrixRow } from '../campaign/matrix.js';
import { FAULT_CLASSES } from '../libraries/search/fault-classes.js';
import { VIOLATION_KINDS } from '../libraries/search/kinds.js';
import { REPLAY } from '../libraries/test-library.js';
import { textTable } from './text-table.js';

/** Where the counterexamples of a matrix were written: by {@link failureName}. */
export type Written = ReadonlyMap<string, string>;

/** The name of the file of a failure, without its ending. */
export function failureName(row: string, fault: string, kind: string): string {
  return `${row}-${fault}-${kind}`;
}

/** How a matrix is told to a person. `replayOf` gives the command that shows a failure again. */
export function matrixText(
  rows: readonly MatrixRow[],
  written: Written,
  replayOf: (row: string, fault: string, path: string) => string,
): string {
  const faults = FAULT_CLASSES.filter(({ id }) => rows.some(({ cells }) => cells.some((it) => it.fault === id)));
  const unable = rows.flatMap(({ id, error }) => (error === null ? [] : [`${id} could not be run: ${error}\n`]));
  if (faults.length === 0) return unable.join('');
  const legend = faults.map(({ id, story }) => `  ${id.padEnd(18)} ${story}`).join('\n');
  const beliefs = rows
    .filter(({ cells }) => cells.length > 0)
    .map(({ library, version, belief }) => `  ${`${library} ${version}`.trim()}: ${belief}`)
    .join('\n');
  return [
    ...tablesOf(rows),
    'runs with a violation of all runs; behind "!", those inside what Redlock assumes. These are',
    'shares of the schedules that this search draws, not rates in production.\n',
    `${legend}\n`,
    `what is taken for a belief\n${beliefs}\n`,
    kindsText(rows),
    failuresText(rows, written, replayOf),
    ...unable,
  ]
    .filter((it) => it !== '')
    .join('\n');
}

/** A table for those on several nodes, and one for those that are made for one. */
function tablesOf(rows: readonly MatrixRow[]): string[] {
  const [several, one] = [rows.filter(({ nodes }) => nodes !== 1), rows.filter(({ nodes }) => nodes === 1)];
  return [several, one].filter((some) => some.some(({ cells }) => cells.length > 0)).map(tableOf);
}

function tableOf(rows: readonly MatrixRow[]): string {
  const faults = FAULT_CLASSES.filter(({ id }) => rows.some(({ cells }) => cells.some((it) => it.fault === id)));
  const head = rows.every(({ nodes }) => nodes === 1) ? 'on one node' : 'fault';
  const lines = faults.map(({ id }) => [id, ...rows.map((row) => cellText(row, id))]);
  return `${textTable([head, ...rows.map(({ id }) => id)], lines, 1)}\n`;
}

function cellText({ cells }: MatrixRow, fault: string): string {
  const cell = cells.find((it) => it.fault === fault);
  if (cell === undefined) return '–';
  const { violations, runs, inside } = cell;
  return violations === 0 ? `0/${runs}` : `${violations}/${runs}${inside === 0 ? '' : ` !${inside}`}`;
}

function kindsText(rows: readonly MatrixRow[]): string {
  const lines = rows.flatMap(({ id, cells }) =>
    cells
      .filter(({ violations }) => violations > 0)
      .map(({ fault, kinds }) => [
        id,
        fault,
        VIOLATION_KINDS.filter((kind) => kinds[kind] !== undefined)
          .map((kind) => `${kind} ${kinds[kind]}`)
          .join(', '),
      ]),
  );
  return lines.length === 0 ? '' : `${textTable(['library', 'fault', 'violations'], lines)}\n`;
}

/** The first counterexample of each library, and where the others are. */
function failuresText(
  rows: readonly MatrixRow[],
  written: Written,
  replayOf: (row: string, fault: string, path: string) => string,
): string {
  const texts: string[] = [];
  for (const { id, cells } of rows) {
    const all = cells.flatMap(({ fault, failures }) => failures.map((failure) => ({ fault, failure })));
    const [first] = [...all].sort((a, b) => rank(a.failure) - rank(b.failure));
    if (first === undefined) continue;
    const path = written.get(failureName(id, first.fault, first.failure.kind));
    const replay = path === undefined ? 'not written' : replayOf(id, first.fault, path);
    texts.push(`${id}, ${first.fault}, kind ${first.failure.kind}\n${first.failure.text.replace(REPLAY, replay)}`);
    if (all.length > 1) texts.push(`  ${all.length - 1} more of ${id} in .lockstep/libraries/${id}-*.json\n`);
  }
  return texts.join('\n');
}

/** Those that keep the assumptions first, then by kind. */
function rank({ assumptionsBroken, kind }: { assumptionsBroken: readonly string[]; kind: string }): number {
  const kinds: readonly string[] = VIOLATION_KINDS;
  return (assumptionsBroken.length === 0 ? 0 : kinds.length) + kinds.indexOf(kind);
}
