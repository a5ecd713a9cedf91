import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from '../real/bench/statistics.js';
import type { Took } from './library-cycles.js';
import { machine, machineLine } from './machine.js';

/*
 * Lock cycles a second of npm libraries inside the simulated world, beside what a test suite has without it: fake timers and
 * ioredis-mock. `npm run bench:libraries`. Both sides take turns, each in a process of its own.
 */

const SIDE = fileURLToPath(new URL('./library-cycles.js', import.meta.url));
const LIBRARIES = ['redlock4', 'redlock5', 'redis-semaphore'] as const;
const WANTED = 9;
/** Clients that open their own connections, below one and the same lock: the cycles a CPU second that are wanted. */
const CLIENTS = {
  'ioredis 5': 4_000,
  'ioredis 6': 4_000,
  iovalkey: 4_000,
  'node-redis 5': 4_000,
  'node-redis 6': 2_500,
  Upstash: 2_500,
} as const;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    cycles: { type: 'string', default: '2000' },
    /** Of clients that open their own connections: cycles before the first round, in parts, each as long as a round. */
    'warm-up': { type: 'string', default: '10000' },
    'reference-cycles': { type: 'string', default: '150' },
    json: { type: 'boolean', default: false },
  },
});

const rows: Row[] = [];
const clients: ClientRow[] = [];
for (const library of LIBRARIES) rows.push(await measured(library));
for (const [client, wanted] of Object.entries(CLIENTS)) clients.push(await measuredAbove(client, wanted));
const result = {
  schema: 'lockstep.bench-libraries/2',
  rounds: Number(values.rounds),
  rows,
  clients,
  machine: machine(),
};
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : text());
const isMet = rows.every(({ ratio }) => ratio >= WANTED) && clients.every((it) => it.perCpuSecond >= it.wanted);
if (!isMet) process.exitCode = 1;

/** Medians of the rounds; ratios are of rounds that were measured one after the other. */
interface Row {
  readonly library: string;
  readonly perSecond: number;
  readonly perCpuSecond: number;
  readonly referencePerSecond: number;
  readonly referencePerCpuSecond: number;
  readonly ratio: number;
  readonly cpuRatio: number;
}

async function measured(library: string): Promise<Row> {
  const simulated = await side(library, 'simulated');
  const reference = await side(library, 'fake-timers');
  // The engine compiles what is hot first.
  await take(simulated, Number(values.cycles) / 2);
  await take(reference, Number(values['reference-cycles']) / 2);
  const pairs: (readonly [Took, Took])[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    pairs.push([
      await take(simulated, Number(values.cycles)),
      await take(reference, Number(values['reference-cycles'])),
    ]);
  }
  simulated.disconnect();
  reference.disconnect();
  const of = (read: (pair: readonly [Took, Took]) => number): number => median(pairs.map(read));
  return {
    library,
    perSecond: of(([own]) => wall(own)),
    perCpuSecond: of(([own]) => cpu(own)),
    referencePerSecond: of(([, other]) => wall(other)),
    referencePerCpuSecond: of(([, other]) => cpu(other)),
    ratio: of(([own, other]) => wall(own) / wall(other)),
    cpuRatio: of(([own, other]) => cpu(own) / cpu(other)),
  };
}

/** A lock above a client of its own. Nothing else runs that way. */
interface ClientRow {
  readonly client: string;
  readonly perSecond: number;
  readonly perCpuSecond: number;
  /** The same of the first cycles, before the engine has compiled what is hot. */
  readonly coldPerCpuSecond: number;
  /** Pop-and-push of the calibration in the time of one cycle: what does not depend on the machine. */
  readonly queueOpsPerCycle: number;
  /** Pop-and-push of the calibration a CPU second. */
  readonly queue: number;
  readonly wanted: number;
}

async function measuredAbove(client: string, wanted: number): Promise<ClientRow> {
  const simulated = await side(client, 'simulated');
  const cold = await take(simulated, Number(values.cycles) / 4);
  for (let done = cold.cycles; done < Number(values['warm-up']); done += Number(values.cycles))
    await take(simulated, Number(values.cycles));
  const taken: Took[] = [];
  for (let round = 0; round < Number(values.rounds); round++) taken.push(await take(simulated, Number(values.cycles)));
  simulated.disconnect();
  return {
    client,
    perSecond: median(taken.map(wall)),
    perCpuSecond: median(taken.map(cpu)),
    coldPerCpuSecond: cpu(cold),
    queueOpsPerCycle: median(taken.map((it) => it.queue / cpu(it))),
    queue: median(taken.map(({ queue }) => queue)),
    wanted,
  };
}

async function side(library: string, which: 'simulated' | 'fake-timers'): Promise<ChildProcess> {
  const child = fork(SIDE, [library, which]);
  await once(child, 'message');
  return child;
}

async function take(child: ChildProcess, cycles: number): Promise<Took> {
  const over = new AbortController();
  const { signal } = over;
  const answer = Promise.race([
    once(child, 'message', { signal }).then(([took]) => took as Took),
    once(child, 'exit', { signal }).then(() => Promise.reject(new Error('a side of the benchmark has ended'))),
  ]);
  child.send(Math.max(1, Math.round(cycles)));
  return answer.finally(() => over.abort());
}

function wall({ cycles, wallMs }: Took): number {
  return cycles / (wallMs / 1000);
}

function cpu({ cycles, cpuMs }: Took): number {
  return cycles / (cpuMs / 1000);
}

function text(): string {
  const whole = (n: number): string => `${Math.round(n)}`.padStart(6);
  return [
    `lock cycles a second, no contention, five nodes; medians of ${result.rounds} rounds; ${machineLine()}`,
    `${''.padEnd(16)} simulated   fake timers + ioredis-mock   ratio of speed   the same of CPU seconds`,
    ...rows.map(
      (row) =>
        `${row.library.padEnd(16)} ${whole(row.perSecond)}      ${whole(row.referencePerSecond)}                       ` +
        `${row.ratio.toFixed(1).padStart(5)} ×    ` +
        `${whole(row.perCpuSecond)} ${whole(row.referencePerCpuSecond)} ${row.cpuRatio.toFixed(1).padStart(5)} ×`,
    ),
    '',
    `locks above clients that open their own connections, after ${values['warm-up']} cycles that are not counted; a cycle in`,
    'pop-and-push of a queue (bench/calibration.ts), measured behind each round, is for comparing machines:',
    ...clients.map(
      ({ client, perSecond, perCpuSecond, wanted, coldPerCpuSecond, queueOpsPerCycle, queue }) =>
        `${client.padEnd(16)} ${whole(perSecond)}     of CPU seconds ${whole(perCpuSecond)}, wanted ${whole(wanted)}` +
        `; cold ${whole(coldPerCpuSecond)}; a cycle = ${whole(queueOpsPerCycle)} pop-and-push of ${(queue / 1e6).toFixed(1)} M/s`,
    ),
    '',
  ].join('\n');
}
