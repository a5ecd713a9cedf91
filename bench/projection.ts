import { parseArgs } from 'node:util';
import type { Redis } from 'ioredis';
import { CampaignRanges, type CampaignSpec, defaultWorkers, engineHash } from '../campaign/index.js';
import { QueuedCampaign } from '../campaign/queue/index.js';
import { SAFETY } from '../properties/index.js';
import { provision } from '../real/provisioner/index.js';
import { searchRange, WITHIN_ASSUMPTIONS } from '../search/index.js';
import { formatCount } from '../text/format.js';
import { machine } from './machine.js';

/*
 * What a campaign of 10⁹ histories takes, computed from rates measured here: `npm run docs:capacity`.
 */

const HISTORIES = 1_000_000_000;
const RANGE_RUNS = 20_000;
/** Empty enough that the queue is all there is to them. */
const RANGES = 5_000;
const CORES = [2, 16, 64, 256, 1024];

const { values } = parseArgs({
  options: { histories: { type: 'string', default: '100000' }, 'core-hour': { type: 'string', default: '0.04' } },
});

const perCore = historiesPerSecond(Number(values.histories));
const queue = await measuredQueue();
process.stdout.write(page());

/** Of one thread that is warm, by its CPU time; nothing is made small, and other work on the machine counts little. */
function historiesPerSecond(histories: number): number {
  const plan = {
    faultModel: WITHIN_ASSUMPTIONS,
    seed: 'projection',
    strategy: 'combination',
    properties: SAFETY,
  } as const;
  searchRange(plan, 0, histories / 4);
  const before = process.cpuUsage();
  searchRange(plan, histories, 2 * histories);
  const { user, system } = process.cpuUsage(before);
  return (1_000_000 * histories) / (user + system);
}

interface QueueFigures {
  /** By the CPU time of the server, which does one thing at a time. */
  readonly addedPerSecond: number;
  readonly madePerSecond: number;
  readonly bytesWaiting: number;
  readonly bytesDone: number;
  readonly aofBytes: number;
}

/** Ranges of one run each through a real server: what is left is what the queue costs. */
async function measuredQueue(): Promise<QueueFigures> {
  await using provided = await provision({ nodes: 1, sources: ['processes', 'package'], persistence: 'everysec' });
  const [node] = provided.nodes;
  if (node === undefined) throw new Error('there is no node');
  const redis = node.client();
  const spec: CampaignSpec = {
    schema: 'lockstep.campaign/1',
    searches: [
      {
        name: 'all',
        weight: 1,
        plan: { faultModel: WITHIN_ASSUMPTIONS, seed: '1', strategy: 'combination', properties: SAFETY },
      },
    ],
    runs: RANGES,
    rangeRuns: 1,
    budgetMs: null,
    stopAfter: null,
    engine: engineHash(),
  };
  await using queued = await QueuedCampaign.at({ url: node.url, name: 'projection' });
  const empty = await usedBytes(redis);
  const began = await cpuSeconds(redis);
  await queued.enqueue(spec);
  const enqueued = await cpuSeconds(redis);
  const waiting = await usedBytes(redis);
  await queued.work(defaultWorkers(), new AbortController().signal);
  const made = await cpuSeconds(redis);
  const done = await usedBytes(redis);
  const [, aof = '0'] = /aof_current_size:(\d+)/.exec(await redis.info('persistence')) ?? [];
  const { count } = new CampaignRanges(spec);
  return {
    addedPerSecond: count / (enqueued - began),
    madePerSecond: count / (made - enqueued),
    bytesWaiting: (waiting - empty) / count,
    bytesDone: (done - empty) / count,
    aofBytes: Number(aof) / count,
  };
}

async function cpuSeconds(redis: Redis): Promise<number> {
  const info = await redis.info('cpu');
  const [, user = '0'] = /used_cpu_user:([\d.]+)/.exec(info) ?? [];
  const [, system = '0'] = /used_cpu_sys:([\d.]+)/.exec(info) ?? [];
  return Number(user) + Number(system);
}

async function usedBytes(redis: Redis): Promise<number> {
  const [, used = '0'] = /used_memory:(\d+)/.exec(await redis.info('memory')) ?? [];
  return Number(used);
}

function page(): string {
  const { cpu, cores, memoryGiB, node } = machine();
  const ranges = HISTORIES / RANGE_RUNS;
  const coreHours = HISTORIES / perCore / 3600;
  const price = Number(values['core-hour']);
  const full = Math.floor((queue.madePerSecond * RANGE_RUNS) / perCore);
  const rows = CORES.map((count) => {
    const computing = HISTORIES / perCore / count;
    const queueing = ranges / queue.madePerSecond;
    const first = computing >= queueing ? 'cores' : 'queue';
    const jobs = (count * perCore) / RANGE_RUNS;
    return `| ${count} | ${timeWords(Math.max(computing, queueing))} | ${jobs.toFixed(1)} | ${((100 * jobs) / queue.madePerSecond).toFixed(1)} % | ${first} |`;
  });
  return `# A campaign of 10⁹ histories

\`npm run docs:capacity\` computes this page from rates that it measures, here on ${cores} × ${cpu}, ${memoryGiB} GiB, Node ${node}. The rates are
per second of CPU time: of a searching thread, and of the server, which is single-threaded.

| measured | |
|---|---|
| histories per second on one core (five nodes, three clients, every kind of fault, up to the bounds of the assumptions) | ${words(perCore)} |
| ranges added to the queue, per second of the server | ${words(queue.addedPerSecond)} |
| ranges taken, stored and finished, per second of the server | ${words(queue.madePerSecond)} |
| Redis memory for a waiting range | ${words(queue.bytesWaiting)} bytes |
| Redis memory for a finished range | ${words(queue.bytesDone)} bytes |
| append-only file per range, before it is rewritten | ${words(queue.aofBytes)} bytes |

With ranges of ${words(RANGE_RUNS)}, 10⁹ histories are ${words(ranges)} ranges. They need ${mebibytes(ranges * queue.bytesWaiting)} MiB of Redis while all wait, and ${mebibytes(ranges * queue.bytesDone)} MiB when
all are done (and up to 1 000 failures of some kilobytes). Adding them takes ${timeWords(ranges / queue.addedPerSecond)} of the server's time. The search takes
${words(coreHours)} core hours, which cost ${(coreHours * price).toFixed(2)} at ${price} per core hour.

| cores | time | ranges per second | load of the queue | saturates first |
|---|---|---|---|---|
${rows.join('\n')}

The searching cores saturate first, up to about ${words(full)} cores. Beyond that, the server of the queue does. Longer ranges (\`--range-runs\`)
raise this limit in proportion.
`;
}

function words(value: number): string {
  return formatCount(Math.round(value));
}

function mebibytes(bytes: number): string {
  return words(bytes / 2 ** 20);
}

function timeWords(seconds: number): string {
  if (seconds >= 7_200) return `${(seconds / 3600).toFixed(1)} h`;
  return seconds >= 120 ? `${(seconds / 60).toFixed(0)} min` : `${seconds.toFixed(0)} s`;
}
