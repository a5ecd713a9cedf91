import { type Change, type PassReport, passPage } from '../report/pass/index.js';
import { findScenario } from '../scenarios/catalogue.js';
import { shellCommand } from '../text/shell.js';
import type { Io } from './io.js';
import { reportPath } from './report-file.js';
import { writeIfPossible } from './write-file.js';

/**
 * Writes the page for a result without a violation.
 *
 * @param name - As a person named it: a page, or a name for one among the reports.
 * @returns Its path; `null` if it could not be written, which has been said.
 */
export function writePass(name: string, report: PassReport, io: Io): string | null {
  return writeIfPossible(reportPath(name), passPage(report), io);
}

/** Where the page is, in a line below a result. */
export function pageLine(path: string | null): string {
  return path === null ? '' : `  report        ${path}\n`;
}

/** A report of which nothing has been said yet. */
export function emptyPass(io: Io): PassReport {
  return {
    subject: '',
    verdict: '',
    tone: 'good',
    sentence: '',
    bounds: [],
    map: null,
    tried: [],
    notTried: [],
    nearMisses: [],
    changes: [],
    lines: [],
    configuration: [],
    meaning: [],
    commands: io.again === undefined ? [] : [{ title: 'this page', command: io.again }],
  };
}

/** What is beyond the assumptions of the lock, and the scenario that shows it, with what is known to help. */
const FEARS: readonly (readonly [fear: string, scenario: string])[] = [
  ['a node is back at once, without its keys', 'S03'],
  ['power is lost before the next fsync', 'S07'],
  ['a clock of a node jumps by more than the drift allowance', 'S16'],
  ['clocks run apart by more than the drift allowance', 'S17'],
  ['a machine sleeps, and the clock of its client with it', 'S19'],
  ['a client is paused between its check and its write', 'S24'],
  ['a write is on its way for longer than the lock lasts', 'S25'],
  ['a replica takes over in a partition', 'S64'],
];

/** What to change if more is feared than the lock assumes: scenarios of the catalogue and what mends them. */
export function fearedChanges(io: Io): Change[] {
  return FEARS.flatMap(([fear, id]) => {
    const flips = findScenario(id).flips.filter((it) => it.with !== undefined && it.expect.verdict === 'safe');
    const [first] = flips;
    if (first?.with === undefined) return [];
    return [
      {
        fear,
        change: flips.map((it) => `${it.with}: ${it.title}`).join('; or '),
        command: shellCommand(io.command, 'replay', id, '--with', first.with),
      },
    ];
  });
}
