import { mkdirSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { inlineFor } from '../campaign/inlining.js';
import { machineLine } from './machine.js';
import { type Agreement, compareRuns, MOST_KEPT } from './oracle/agreement.js';

/** Histories that a worker compares before it tells of them. */
const CHUNK = 2_000;
const FOLDER = '.lockstep/disagreements';

interface Share {
  readonly seed: string;
  readonly from: number;
  readonly to: number;
}

if (isMainThread) await main();
else work(workerData as Share);

function work({ seed, from, to }: Share): void {
  for (let run = from; run < to; run += CHUNK) {
    parentPort?.postMessage(compareRuns(seed, run, Math.min(to, run + CHUNK)));
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '1000000' },
      seed: { type: 'string', default: 'agree' },
      jobs: { type: 'string', default: '2' },
    },
  });
  const [runs, jobs] = [Number(values.runs), Number(values.jobs)];
  if (!Number.isSafeInteger(runs) || runs < 1 || !Number.isSafeInteger(jobs) || jobs < 1) {
    process.stderr.write('--runs and --jobs take whole numbers from 1 on\n');
    process.exitCode = 2;
    return;
  }
  inlineFor(runs);
  const began = performance.now();
  const done = { runs: 0, found: new Map<string, number>(), disagreements: 0, examples: [] as unknown[] };
  const take = (part: Agreement): void => {
    done.runs += part.runs;
    done.disagreements += part.disagreements;
    done.examples.push(...part.examples);
    for (const [what, count] of [...Object.entries(part.violations), ...Object.entries(part.outages)]) {
      done.found.set(what, (done.found.get(what) ?? 0) + count);
    }
    if (process.stderr.isTTY) process.stderr.write(`\r${done.runs} of ${runs} histories, ${done.disagreements} differ`);
  };
  await Promise.all(
    Array.from({ length: jobs }, (_, i) => {
      const at = (part: number): number => Math.floor((runs * part) / jobs);
      return share({ seed: values.seed, from: at(i), to: at(i + 1) }, take);
    }),
  );
  if (process.stderr.isTTY) process.stderr.write('\n');
  const seconds = (performance.now() - began) / 1000;
  const counts = [...done.found].sort((a, b) => b[1] - a[1]).map(([what, count]) => `  ${what} ${count}`);
  process.stdout.write(
    [
      `${done.runs} histories, ${done.disagreements} on which monitors and trace disagree   seed ${values.seed}`,
      'violations, and times in which nobody could acquire, that both found at the same microseconds:',
      ...counts,
      `${seconds.toFixed(0)} s with ${jobs} workers; ${machineLine()}`,
      '',
    ].join('\n'),
  );
  if (done.disagreements === 0) return;
  mkdirSync(FOLDER, { recursive: true });
  const kept = done.examples.slice(0, MOST_KEPT);
  for (const [i, example] of kept.entries()) writeFileSync(`${FOLDER}/${i}.json`, JSON.stringify(example, null, 2));
  process.stderr.write(`${kept.length} examples are in ${FOLDER}\n`);
  process.exitCode = 1;
}

function share(workerShare: Share, take: (part: Agreement) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: workerShare });
    worker.on('message', take);
    worker.on('error', reject);
    worker.on('exit', () => resolve());
  });
}
