import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from '../real/bench/statistics.js';
import { machine, machineLine } from './machine.js';

/*
 * How much faster several workers search than one, and what memory a long search takes: `npm run bench:workers`.
 */

const MAIN = fileURLToPath(new URL('../cli/main.js', import.meta.url));

/** One search in a process of its own. */
interface Search {
  readonly workers: number;
  readonly seconds: number;
  readonly runs: number;
  readonly hash: string;
  /** Resident memory, MiB, at a tenth, a half and the end of the time, and the most there ever was. */
  readonly memoryMiB: readonly [tenth: number, half: number, end: number, most: number];
}

const LOOK_MS = 250;

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '3' },
    workers: { type: 'string', default: '1,2' },
    seed: { type: 'string', default: 'workers' },
    /** As `check` has it, and a file for what the last search says. */
    properties: { type: 'string' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});

const counts = values.workers.split(',').map(Number);
const searches: Search[] = [];
for (let round = 0; round < Number(values.rounds); round++) {
  // In turns, so that a change of the machine's speed meets them all.
  for (const workers of round % 2 === 0 ? counts : counts.toReversed()) searches.push(await search(workers));
}
const rows = counts.map((workers) => {
  const own = searches.filter((it) => it.workers === workers);
  return { workers, perSecond: median(own.map((it) => it.runs / it.seconds)), memoryMiB: own[0]?.memoryMiB };
});
const [first] = rows;
const hashes = [...new Set(searches.map((it) => it.hash))];
const result = {
  schema: 'lockstep.bench-workers/1',
  runs: Number(values.runs),
  rounds: Number(values.rounds),
  hashes,
  rows: rows.map((row) => ({ ...row, ratio: Math.round((100 * row.perSecond) / (first?.perSecond ?? 1)) / 100 })),
  machine: machine(),
};
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : text());
if (hashes.length !== 1) process.exitCode = 1;

function text(): string {
  return [
    `${result.runs} schedules a search, medians of ${result.rounds}; ${machineLine()}`,
    ...result.rows.map(({ workers, perSecond, ratio, memoryMiB }) => {
      const [tenth, half, end, most] = memoryMiB ?? [0, 0, 0, 0];
      return (
        `${workers} worker${workers === 1 ? ' ' : 's'}   ${Math.round(perSecond)} schedules/s   ${ratio.toFixed(2)} ×   ` +
        `memory at a tenth, half and end of the time ${tenth}, ${half} and ${end} MiB, most ${most} MiB`
      );
    }),
    hashes.length === 1 ? `one hash: ${hashes[0]}` : `DIFFERENT HASHES: ${hashes.join(' ')}`,
    '',
  ].join('\n');
}

function search(workers: number): Promise<Search> {
  const argv = ['check', '--runs', values.runs, '--seed', values.seed, '--workers', `${workers}`];
  if (values.properties !== undefined) argv.push('--properties', values.properties);
  const child = spawn(process.execPath, [MAIN, ...argv, '--no-regressions', '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const memory: number[] = [];
  const timer = setInterval(() => memory.push(residentMiB(child.pid)), LOOK_MS);
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    out += part;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      clearInterval(timer);
      if (code !== 0) return reject(new Error(`the search ended with ${code}`));
      if (values.out !== undefined) writeFileSync(values.out, out);
      const { runs, hash, elapsedMs } = JSON.parse(out);
      const alive = memory.filter((it) => it > 0);
      const at = (share: number): number => alive[Math.floor((alive.length - 1) * share)] ?? 0;
      resolve({
        workers,
        seconds: elapsedMs / 1000,
        runs,
        hash,
        memoryMiB: [at(0.1), at(0.5), at(1), Math.max(...alive)],
      });
    });
  });
}

/** 0 where the system does not tell, or the process has ended. */
function residentMiB(pid: number | undefined): number {
  try {
    const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Math.round(Number(kilobytes) / 1024);
  } catch {
    return 0;
  }
}
