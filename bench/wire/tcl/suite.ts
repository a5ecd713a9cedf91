import { spawn } from 'node:child_process';
import { freePort } from '../../../real/provisioner/free-port.js';

/** What came of one test of the suite. */
export interface Outcome {
  readonly state: 'passed' | 'failed' | 'hung';
  /** What the suite says of a failure. */
  readonly text: string;
}

/** What came of a file of the suite, by the names of its tests. */
export interface UnitOutcome {
  readonly tests: ReadonlyMap<string, Outcome>;
  /** Tests, and blocks of tests, that the suite itself leaves out against a server that it did not start. */
  readonly left: readonly string[];
}

/** Seconds without news after which a test is held to hang. */
const PATIENCE = 60;
/** How many tests of one file may hang before the rest of it is given up. */
const MAX_HUNG = 8;

const LINE = /^\[(ok|err|ignore|exception)\]: (.*)$/;
const IN_PROGRESS = /\(IN PROGRESS\) (.*)$/m;

/**
 * Runs one file of the suite against a server on a port of the loopback.
 * @param checkout - Of Redis, with its tests.
 * @param skipped - The names of tests that are not run.
 */
export async function runUnit(
  checkout: string,
  unit: string,
  port: number,
  skipped: readonly string[] = [],
): Promise<UnitOutcome> {
  const hung: string[] = [];
  for (;;) {
    const output = await runOnce(checkout, unit, port, [...skipped, ...hung]);
    const stuck = IN_PROGRESS.exec(output)?.[1];
    if (stuck !== undefined && output.includes('[TIMEOUT]') && hung.length < MAX_HUNG) {
      hung.push(stuck);
      continue;
    }
    const { tests, left } = outcomesOf(output);
    for (const name of hung) tests.set(name, { state: 'hung', text: `no news for ${PATIENCE} s` });
    return { tests, left };
  }
}

async function runOnce(checkout: string, unit: string, port: number, skipped: readonly string[]): Promise<string> {
  // The suite's own port is the first free one of the 32 below its base.
  const base = String((await freePort()) + 32);
  const argv = [
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    '--baseport',
    base,
    '--single',
    unit,
    '--timeout',
    String(PATIENCE),
  ];
  const suite = spawn(
    'tclsh',
    [
      ...['tests/test_helper.tcl', ...argv, '--durable', '--ignore-digest', '--tags', '-needs:repl -needs:save'],
      ...skipped.flatMap((name) => ['--skiptest', name]),
    ],
    { cwd: checkout, env: { ...process.env, TERM: 'dumb' }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let output = '';
  for (const stream of [suite.stdout, suite.stderr]) {
    stream.setEncoding('latin1');
    stream.on('data', (text: string) => {
      output += text;
    });
  }
  return await new Promise((resolve, reject) => {
    suite.once('error', reject);
    suite.once('close', () => resolve(output));
  });
}

/** The name of a test without the number that tells it apart. */
export function nameOf(key: string): string {
  return key.replace(/ \(run \d+\)$/, '');
}

/** Reads what the suite has printed; tests of one name are told apart by their number. */
export function outcomesOf(output: string): { tests: Map<string, Outcome>; left: string[] } {
  const tests = new Map<string, Outcome>();
  const left: string[] = [];
  const [report = ''] = output.split('\n                   The End');
  const lines = report.split('\n');
  for (const [i, line] of lines.entries()) {
    const [, mark, rest = ''] = LINE.exec(line) ?? [];
    if (mark === 'ignore') left.push(rest);
    else if (mark === 'ok') tests.set(fresh(tests, rest.replace(/ \(\d+ ms\)$/, '')), { state: 'passed', text: '' });
    else if (mark !== undefined) {
      const end = lines.findIndex((it, at) => at > i && it.startsWith('['));
      const text = lines.slice(i + 1, end < 0 ? undefined : end).join('\n');
      const [, name] = / in tests\/\S+$/.test(rest) ? (/^(.*) in tests\/\S+$/.exec(rest) ?? []) : [];
      tests.set(fresh(tests, name ?? `outside of tests: ${rest}`), { state: 'failed', text: text || rest });
    }
  }
  return { tests, left };
}

function fresh(tests: ReadonlyMap<string, Outcome>, name: string): string {
  if (!tests.has(name)) return name;
  for (let number = 2; ; number++) if (!tests.has(`${name} (run ${number})`)) return `${name} (run ${number})`;
}
