import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { passPage } from '../report/pass/index.js';
import { InputError } from '../scenarios/input-error.js';
import { plural } from '../text/format.js';
import { DEFAULT_KINDS, type ExpectSafeOptions } from './options.js';
import { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';

/** What came of a test that passed. */
interface Passed {
  readonly runs: number;
  readonly claims: number;
  readonly classes: Readonly<Record<string, number>>;
  readonly untested: readonly ViolationKind[];
  readonly notes: readonly string[];
}

/**
 * Writes the page for a client in which nothing was found.
 *
 * @throws InputError if it cannot be written.
 */
export function writePassPage(path: string, result: Passed, options: ExpectSafeOptions): void {
  const { runs, claims, classes, untested, notes } = result;
  const { nodes = 5, clients = 3, ttlMs, seed = 'lockstep', faults, kinds = DEFAULT_KINDS } = options;
  const page = passPage({
    subject: `${plural(nodes, 'node')}, ${plural(clients, 'client')}, a lock tested by expectSafe`,
    verdict: 'passed',
    tone: 'good',
    sentence: `No schedule was found that breaks the lock, in ${plural(runs, 'case')} with ${plural(claims, 'acquisition')}.`,
    bounds: [],
    map: null,
    tried: Object.entries(classes).map(([name, count]) => ({ name, text: plural(count, 'case') })),
    notTried: [
      { name: 'nothing brought about', text: untested.join(', ') || 'nothing that was asked for' },
      { name: 'not asked for', text: VIOLATION_KINDS.filter((it) => !kinds.includes(it)).join(', ') || 'nothing' },
    ],
    nearMisses: notes.map((text) => ({ name: 'note', text })),
    changes: [],
    lines: [],
    configuration: [
      { name: 'TTL', text: ttlMs === undefined ? '10 000, 2 500 and 730 ms, by chance' : `${ttlMs} ms` },
      { name: 'faults', text: faults === undefined ? 'the default classes' : JSON.stringify(faults) },
      { name: 'seed', text: seed },
    ],
    meaning: [
      'The lock ran unmodified in a simulated world. That no schedule was found is no proof that there is none.',
    ],
    commands: [],
  });
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, page);
  } catch (error) {
    throw new InputError(
      `passTo: ${path} cannot be written: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
