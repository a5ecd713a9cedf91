import { parseArgs } from 'node:util';
import { noCounts } from '../properties/coverage.js';
import { Monitors } from '../properties/index.js';
import { RollingHash, Streams, World } from '../sim/index.js';
import { type Machine, machine } from './machine.js';
import { type MonitorCost, monitorCosts } from './monitor-costs.js';
import { REFERENCE_SETUP, ReferenceWorkload } from './reference.js';
import { popAndPushPerSecond } from './yardstick.js';

/** The simulator's speed on the reference workload, one thread, monitors on. */
interface SimBench {
  readonly schema: 'lockstep.bench-sim/1';
  readonly historiesPerSecond: number;
  readonly eventsPerSecond: number;
  readonly eventsPerHistory: number;
  readonly stepsPerHistory: number;
  readonly claimsPerHistory: number;
  readonly simulatedSecondsPerSecond: number;
  /** Simulated events per pop-and-push of the yardstick: median of the rounds' ratios. */
  readonly ratioToQueue: number;
  readonly popAndPushPerSecond: number;
  readonly rounds: number;
  readonly historiesPerRound: number;
  readonly hash: string;
  /** What each monitor costs, % of the CPU time. */
  readonly monitors: readonly MonitorCost[];
  readonly machine: Machine;
}

const YARDSTICK_ROUNDS = 2_000_000;

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '7' },
    histories: { type: 'string', default: '10000' },
  },
});

const result = measure(Number(values.rounds), Number(values.histories));
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : describe(result));

function measure(rounds: number, histories: number): SimBench {
  const clock = (): number => performance.now();
  const streams = new Streams('reference workload');
  const totals = { events: 0, steps: 0, endUs: 0, counts: noCounts() };
  const hash = new RollingHash();
  const history = (run: number, alter?: (monitors: Monitors) => void): void => {
    const monitors = new Monitors(REFERENCE_SETUP, [], totals.counts);
    alter?.(monitors);
    const world = new World(REFERENCE_SETUP, new ReferenceWorkload(streams, run), monitors, false);
    world.run();
    totals.events += world.events;
    totals.endUs += world.now;
    for (const client of world.clients) totals.steps += client.steps;
    hash.add(world.chronicle.trace.value());
  };
  for (let run = 0; run < histories / 2; run++) history(run);
  popAndPushPerSecond(YARDSTICK_ROUNDS, clock);
  Object.assign(totals, { events: 0, steps: 0, endUs: 0, counts: noCounts() });
  hash.reset();

  const measured: { seconds: number; eventsPerSecond: number; queue: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = totals.events;
    const began = clock();
    for (let i = 0; i < histories; i++) history(round * histories + i);
    const seconds = (clock() - began) / 1000;
    const queue = popAndPushPerSecond(YARDSTICK_ROUNDS, clock);
    measured.push({ seconds, eventsPerSecond: (totals.events - before) / seconds, queue });
  }
  const all = rounds * histories;
  const seconds = median(measured.map((round) => round.seconds));
  return {
    schema: 'lockstep.bench-sim/1',
    historiesPerSecond: Math.round(histories / seconds),
    eventsPerSecond: Math.round(median(measured.map((round) => round.eventsPerSecond))),
    eventsPerHistory: round2(totals.events / all),
    stepsPerHistory: round2(totals.steps / all),
    claimsPerHistory: round2(totals.counts.claims / all),
    simulatedSecondsPerSecond: Math.round((totals.endUs / all / 1e6) * (histories / seconds)),
    ratioToQueue: round2(median(measured.map((round) => round.eventsPerSecond / round.queue))),
    popAndPushPerSecond: Math.round(median(measured.map((round) => round.queue))),
    rounds,
    historiesPerRound: histories,
    hash: hash.digest(),
    monitors: monitorCosts(history, rounds, Math.ceil(histories / 10)),
    machine: machine(),
  };
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}

function describe(bench: SimBench): string {
  const { machine: it } = bench;
  return [
    `${bench.historiesPerSecond} histories/s, ${bench.eventsPerSecond} events/s, one thread, monitors on`,
    `a history: ${bench.eventsPerHistory} events, ${bench.stepsPerHistory} steps of the lock, ${bench.claimsPerHistory} claims`,
    `${bench.ratioToQueue} events per pop-and-push of the yardstick (${bench.popAndPushPerSecond}/s)`,
    `of that, % of the CPU time: ${bench.monitors.map((it) => `${it.monitor} ${it.percent}`).join('; ')}`,
    `median of ${bench.rounds} rounds of ${bench.historiesPerRound}; hash ${bench.hash}`,
    `${it.cpu}, ${it.cores} cores, ${it.memoryGiB} GiB, Node ${it.node}, ${it.platform}`,
    '',
  ].join('\n');
}
