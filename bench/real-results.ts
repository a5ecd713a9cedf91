import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { chaos } from '../cli/chaos.js';
import { CHAOS_CLIENTS, SIMULATED_EDITIONS } from '../cli/chaos-words.js';
import { Exit } from '../cli/exit-codes.js';
import type { Io } from '../cli/io.js';
import { ProgressLine } from '../cli/progress.js';
import { wordList } from '../cli/values.js';
import { benchDocument, safetyDocument } from '../real/bench/document.js';
import { drawBench, type Health, runBench, runSafety, type Shape } from '../real/bench/index.js';
import { parseDuration } from '../scenarios/duration.js';

/*
 * Measures on real nodes, and writes what was found into docs/results.md and docs/bench.svg:
 *
 *   node dist/bench/real-results.js [bench] [safety] [chaos] [--effort 1] [--rounds 21] [--nodes 5,3,1] [--chaos 60s]
 *     [--seed 24] [--clients ioredis@6,node-redis@6] [--simulated redis@8.4.0]
 *
 * Each part is written as soon as it is there. A part that was interrupted is not.
 */

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    effort: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '21' },
    nodes: { type: 'string', default: '5,3,1' },
    shapes: { type: 'string' },
    healths: { type: 'string' },
    chaos: { type: 'string', default: '60s' },
    seed: { type: 'string' },
    clients: { type: 'string', default: 'ioredis@5' },
    simulated: { type: 'string', default: '' },
    into: { type: 'string', default: 'docs' },
  },
});
const RESULTS = `${values.into}/results.md`;
const controller = new AbortController();
process.on('SIGINT', () => controller.abort());
const { stdout, stderr, env } = process;
const io: Io = { stdout, stderr, env, cwd: process.cwd(), signal: controller.signal, command: 'lockstep' };
const line = new ProgressLine(io);

/** Puts `text` between the marks of a section of the document. */
function writeSection(name: string, text: string): void {
  const document = readFileSync(RESULTS, 'utf8');
  const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${RESULTS} has no section ${begin} … ${end}.`);
  writeFileSync(RESULTS, `${document.slice(0, from + begin.length)}\n${text}\n${document.slice(to)}`);
  stdout.write(`${RESULTS}: ${name} written\n`);
}

async function recordBench(): Promise<number> {
  const [load = 0] = loadavg();
  const result = await runBench({
    nodes: values.nodes.split(',').map(Number),
    rounds: Number(values.rounds),
    effort: Number(values.effort),
    ...(values.shapes === undefined ? {} : { shapes: values.shapes.split(',') as Shape[] }),
    ...(values.healths === undefined ? {} : { healths: values.healths.split(',') as Health[] }),
    signal: controller.signal,
    onProgress: ({ done, total, nodes, shape, health }) =>
      line.show(`bench: ${done} of ${total} measured: ${nodes} nodes, ${shape}, ${health}`),
  });
  line.end();
  if (result.interrupted) return Exit.interrupted;
  writeSection('bench', benchDocument(result, load));
  writeFileSync(`${values.into}/bench.svg`, `${drawBench(result)}\n`);
  const missed = result.thresholds.filter(({ met }) => !met);
  for (const { what, wanted, found } of missed) stdout.write(`missed: ${what}: ${found}, wanted ${wanted}\n`);
  return missed.length === 0 ? Exit.ok : Exit.tooSlow;
}

async function recordSafety(): Promise<number> {
  const result = await runSafety({
    signal: controller.signal,
    onProgress: ({ done, total }) => line.show(`safety: ${done} of ${total} situations acted out`),
  });
  line.end();
  if (controller.signal.aborted) return Exit.interrupted;
  writeSection('safety', safetyDocument(result));
  const unsafe = result.rows.some(({ subject, verdict }) => subject === 'lockstep' && verdict !== 'safe');
  return unsafe ? Exit.violated : Exit.ok;
}

async function recordChaos(): Promise<number> {
  const [load = 0] = loadavg();
  let told = '';
  mkdirSync('.lockstep/chaos', { recursive: true });
  const code = await chaos(
    {
      duration: parseDuration(values.chaos),
      seed: values.seed,
      clients: wordList('a client', CHAOS_CLIENTS)(values.clients),
      simulated: values.simulated === '' ? [] : wordList('an edition', SIMULATED_EDITIONS)(values.simulated),
    },
    { ...io, stdout: { write: (text) => (told += text) } },
  );
  if (code !== Exit.interrupted)
    writeSection('chaos', `Load average ${load.toFixed(2)} before.\n\n\`\`\`\n${told.trimEnd()}\n\`\`\``);
  return code;
}

const PARTS: readonly (readonly [string, () => Promise<number>])[] = [
  ['bench', recordBench],
  ['safety', recordSafety],
  ['chaos', recordChaos],
];
for (const [name, record] of PARTS) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  const code = controller.signal.aborted ? Exit.interrupted : await record();
  if (code !== Exit.ok) stdout.write(`${name}: exit code ${code}\n`);
  process.exitCode ||= code;
}
