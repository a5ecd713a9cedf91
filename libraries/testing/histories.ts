import '../runtime/installed.js';
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from '../lock-factory.js';
import { FAULT_CLASSES, withstood } from '../search/fault-classes.js';
import { type Cell, searchLibraries } from '../search/search.js';
import { EIGHT_STYLES } from './clients/eight-styles.js';

/*
 * Histories of right locks, each style in each class of faults that keeps the assumptions: `npm run -s bench:histories`. What
 * is done is kept in a file, a line for each part; the same command goes on where an earlier one ended. Exit code 2: a right
 * lock was condemned.
 */

/** Histories of one style in one class. */
const PART = 200;

/** One part, as the file has it. */
interface Part extends Pick<Cell, 'runs' | 'claims' | 'violations' | 'kinds' | 'hash'> {
  readonly style: string;
  readonly fault: string;
  readonly seed: string;
}

const HELP = `Usage: npm run -s bench:histories -- [options]

Search histories of right locks for a false alarm: each style in each class of faults that it has to withstand.

  --runs <n>      histories in all (default: 1000000)
  --seed <text>   random seed (default: 1)
  --file <path>   where each part is kept; a later run goes on from there (default: .lockstep/histories.jsonl)
  --json          print one JSON object
`;

const values = options();
const wanted = Number(values.runs);
if (!Number.isInteger(wanted) || wanted < 1) refuse(`--runs has to be a whole number above 0, not "${values.runs}"`);
// What is done is in the file; totals of a part of it would be taken for the whole.
process.once('SIGINT', () => process.exit(130));

const CLASSES = withstood(false).filter(({ id }) => FAULT_CLASSES.some((it) => it.id === id));
const nameOf = (style: string, fault: string, seed: string): string => [seed, fault, style].join('\t');
const parts = new Map(read().map((it) => [nameOf(it.style, it.fault, it.seed), it]));
await search();
const all = [...parts.values()];
process.stdout.write(values.json ? `${JSON.stringify({ schema: 'lockstep.histories/1', ...totals() })}\n` : text());
if (totals().alarms > 0) process.exitCode = 2;

function options() {
  try {
    const { values } = parseArgs({
      options: {
        runs: { type: 'string', default: '1000000' },
        seed: { type: 'string', default: '1' },
        file: { type: 'string', default: '.lockstep/histories.jsonl' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (!values.help) return values;
    process.stdout.write(HELP);
    process.exit(0);
  } catch (error) {
    return refuse((error as Error).message);
  }
}

function refuse(sentence: string): never {
  process.stderr.write(`${sentence}\n`);
  process.exit(64);
}

function read(): Part[] {
  if (!existsSync(values.file)) return [];
  const lines = readFileSync(values.file, 'utf8').split('\n');
  // The last one may have been cut off.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Part);
}

/** Style after style, so that a search that is ended has gone as far in all of them. */
async function search(): Promise<void> {
  mkdirSync(dirname(values.file), { recursive: true });
  const styles = new Map<string, LockFactory>();
  for (const { style, make } of EIGHT_STYLES) styles.set(style, await lockFactoryOf(style, make, COMMAND_TIMEOUT_MS));
  let done = [...parts.values()].reduce((sum, { runs }) => sum + runs, 0);
  for (let round = 0; done < wanted; round++) {
    const seed = `${values.seed}.${round}`;
    for (const faults of CLASSES) {
      for (const [style, subject] of styles) {
        if (done >= wanted || parts.has(nameOf(style, faults.id, seed))) continue;
        const cell = await searchLibraries(subject, faults, { seed, runs: Math.min(PART, wanted - done) });
        const { runs, claims, violations, kinds, hash } = cell;
        const part = { style, fault: faults.id, seed, runs, claims, violations, kinds, hash };
        appendFileSync(values.file, `${JSON.stringify(part)}\n`);
        parts.set(nameOf(style, faults.id, seed), part);
        done += runs;
      }
      if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${wanted} histories`);
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\n');
}

function totals(): { readonly histories: number; readonly acquisitions: number; readonly alarms: number } {
  const sum = (of: (part: Part) => number): number => all.reduce((before, part) => before + of(part), 0);
  return {
    histories: sum(({ runs }) => runs),
    acquisitions: sum(({ claims }) => claims),
    alarms: sum(({ violations }) => violations),
  };
}

function text(): string {
  const { histories, acquisitions, alarms } = totals();
  const count = (n: number): string => n.toLocaleString('en-US');
  return [
    `${count(histories)} histories of right locks, ${count(acquisitions)} acquisitions, ${count(alarms)} alarms`,
    `${EIGHT_STYLES.length} styles, ${CLASSES.length} classes inside the assumptions: ${CLASSES.map(({ id }) => id).join(', ')}`,
    ...all
      .filter(({ violations }) => violations > 0)
      .map((it) => `alarm: ${it.style}, ${it.fault}, seed ${it.seed}: ${JSON.stringify(it.kinds)}`),
    '',
  ].join('\n');
}
