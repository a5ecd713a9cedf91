import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testFiles } from './house.js';
import { SWITCH } from './instrument.js';

/** Where tests run: several jobs do so side by side. */
interface Batch {
  /** Folder of the tests. */
  readonly tests: string;
  readonly job: number;
  readonly files: 'quick' | 'long';
}

/** Which tests fail with a mutant awake, by its number: the first of them. A mutant that hangs is killed by that. */
export async function killedByTests(
  { tests, job, files }: Batch,
  ids: readonly number[],
  timeoutMs: number,
): Promise<Map<number, string>> {
  const failed = await runBatch({ tests, job, files }, ids, timeoutMs * (10 + ids.length));
  if (failed !== null) return failed;
  const [only] = ids;
  if (ids.length === 1 && only !== undefined) return new Map([[only, 'does not end']]);
  const half = Math.ceil(ids.length / 2);
  const first = await killedByTests({ tests, job, files }, ids.slice(0, half), timeoutMs);
  const second = await killedByTests({ tests, job, files }, ids.slice(half), timeoutMs);
  return new Map([...first, ...second]);
}

/** All tests of `core` once for each mutant, in one process; `null` if they do not end in time. */
async function runBatch(
  { tests, job, files }: Batch,
  ids: readonly number[],
  timeoutMs: number,
): Promise<Map<number, string> | null> {
  const name = `batch-${job}.test.ts`;
  writeFileSync(join(tests, name), batchText(testFiles(tests, files), ids));
  const report = join(tests, `report-${job}.json`);
  rmSync(report, { force: true });
  await ended(tests, name, report, timeoutMs);
  if (!existsSync(report)) return null;
  const failed = new Map<number, string>();
  for (const { assertionResults } of (JSON.parse(readFileSync(report, 'utf8')) as Report).testResults) {
    for (const { status, ancestorTitles, title } of assertionResults) {
      const id = Number(ancestorTitles.find((it) => it.startsWith('mutant '))?.slice('mutant '.length));
      if (status === 'failed' && !failed.has(id)) failed.set(id, [...ancestorTitles.slice(1), title].join(' › '));
    }
  }
  return failed;
}

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly status: string;
      readonly ancestorTitles: readonly string[];
      readonly title: string;
    }[];
  }[];
}

function batchText(files: readonly string[], ids: readonly number[]): string {
  const imports = (id: number): string => files.map((file) => `  await import('${file}?mutant=${id}');\n`).join('');
  const suites = ids.map(
    (id) =>
      `describe('mutant ${id}', async () => {\n` +
      `  beforeAll(() => { globalThis.${SWITCH} = ${id}; });\n` +
      `  afterAll(() => { globalThis.${SWITCH} = 0; });\n${imports(id)}});\n`,
  );
  return `import { afterAll, beforeAll, describe } from 'vitest';\n${suites.join('')}`;
}

function ended(tests: string, name: string, report: string, timeoutMs: number): Promise<void> {
  const args = ['vitest', 'run', name, '--root', tests, '--reporter=json', `--outputFile=${report}`];
  const child = spawn('npx', args, { cwd: tests, stdio: 'ignore', detached: true, env: { ...process.env, CI: '1' } });
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      // Its workers as well: a loop without an end hears nothing else.
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    }, timeoutMs);
    child.on('exit', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
