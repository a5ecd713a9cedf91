import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { textTable } from '../cli/text-table.js';
import { median } from '../real/bench/statistics.js';
import { machineLine } from './machine.js';

/** How long a person waits for quick verbs: whole processes, beside a Node that does nothing, medians of some rounds. */
const ROUNDS = 9;
const MAIN = fileURLToPath(new URL('../cli/main.js', import.meta.url));
const SUBJECTS: readonly (readonly [name: string, args: readonly string[]])[] = [
  ['node -e 0', ['-e', '0']],
  ['--version', [MAIN, '--version']],
  ['--help', [MAIN, '--help']],
  ['check --help', [MAIN, 'check', '--help']],
  ['list', [MAIN, 'list']],
  ['replay S03', [MAIN, 'replay', 'S03']],
];

const times = SUBJECTS.map(([name]) => ({ name, ms: [] as number[] }));
for (let round = 0; round < ROUNDS; round++) {
  for (const [i, [, args]] of SUBJECTS.entries()) {
    const began = performance.now();
    spawnSync(process.execPath, args, { stdio: 'ignore' });
    times[i]?.ms.push(performance.now() - began);
  }
}
const rows = times.map(({ name, ms }) => {
  return [name, ...[median(ms), Math.min(...ms)].map((it) => it.toFixed(0))];
});
process.stdout.write(`${textTable(['command', 'median ms', 'least ms'], rows, 1)}\n\n${machineLine()}\n`);
