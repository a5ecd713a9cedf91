import { parseArgs } from 'node:util';
import { inlineFor } from '../campaign/inlining.js';
import type { Counts, CoveragePoint } from '../properties/coverage.js';
import { median } from '../real/bench/statistics.js';
import { COVERAGE_LABELS } from '../search/coverage-labels.js';
import { popAndPushPerSecond } from './calibration.js';
import { type Machine, machine, machineLine } from './machine.js';
import { type MonitorCost, monitorCosts } from './monitor-costs.js';
import { Player } from './workload.js';

/** The simulator's speed on the reference workload, one thread, monitors on. */
interface SimBench {
  readonly schema: 'lockstep.bench-sim/3';
  readonly historiesPerSecond: number;
  /** CPU time of a history, µs: says more than the clock on the wall does on a machine that has other work. */
  readonly cpuUsPerHistory: number;
  readonly eventsPerSecond: number;
  /** One of every kind, unless fewer were asked for (`--faults`). */
  readonly faultsPerHistory: number;
  readonly eventsPerHistory: number;
  readonly stepsPerHistory: number;
  readonly claimsPerHistory: number;
  readonly simulatedSecondsPerSecond: number;
  /** Simulated events per pop-and-push of the calibration: median of the rounds' ratios. */
  readonly ratioToQueue: number;
  readonly violations: number;
  readonly hash: string;
  /** What the histories went through, per thousand. */
  readonly situations: Readonly<Record<CoveragePoint, number>>;
  readonly popAndPushPerSecond: number;
  readonly rounds: number;
  readonly historiesPerRound: number;
  /** What each monitor costs, % of the CPU time. */
  readonly monitors: readonly MonitorCost[];
  readonly machine: Machine;
}

/** One round. */
interface Round {
  readonly seconds: number;
  readonly cpuUs: number;
  readonly eventsPerSecond: number;
  readonly queue: number;
}

const YARDSTICK_ROUNDS = 2_000_000;

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '7' },
    histories: { type: 'string', default: '10000' },
    faults: { type: 'string' },
  },
});

// As a long search has it.
inlineFor(Number.POSITIVE_INFINITY);
const mostFaults = values.faults === undefined ? undefined : Number(values.faults);
const result = measure(Number(values.rounds), Number(values.histories), mostFaults);
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : describe(result));

function measure(rounds: number, histories: number, mostFaults?: number): SimBench {
  const player = new Player(mostFaults);
  for (let run = 0; run < histories / 2; run++) player.play(run);
  player.reset();
  popAndPushPerSecond(YARDSTICK_ROUNDS, clock);
  const measured = Array.from({ length: rounds }, (_, round) => measureRound(player, round, histories));
  const all = player.histories;
  const perSecond = histories / median(measured.map((round) => round.seconds));
  return {
    schema: 'lockstep.bench-sim/3',
    historiesPerSecond: Math.round(perSecond),
    cpuUsPerHistory: round2(median(measured.map((round) => round.cpuUs))),
    eventsPerSecond: Math.round(median(measured.map((round) => round.eventsPerSecond))),
    faultsPerHistory: round2(player.faults / all),
    eventsPerHistory: round2(player.events / all),
    stepsPerHistory: round2(player.steps / all),
    claimsPerHistory: round2(player.counts.claims / all),
    simulatedSecondsPerSecond: Math.round((player.endUs / all / 1e6) * perSecond),
    ratioToQueue: round2(median(measured.map((round) => round.eventsPerSecond / round.queue))),
    violations: player.violations,
    hash: player.hash.digest(),
    situations: perThousand(player.counts, all),
    popAndPushPerSecond: Math.round(median(measured.map((round) => round.queue))),
    rounds,
    historiesPerRound: histories,
    monitors: monitorCosts((run, alter) => player.play(run, alter), rounds, Math.ceil(histories / 10)),
    machine: machine(),
  };
}

function clock(): number {
  return performance.now();
}

function measureRound(player: Player, round: number, histories: number): Round {
  const before = player.events;
  const began = clock();
  const cpu = process.cpuUsage();
  for (let i = 0; i < histories; i++) player.play(round * histories + i);
  const seconds = (clock() - began) / 1000;
  const cpuUs = process.cpuUsage(cpu).user / histories;
  const queue = popAndPushPerSecond(YARDSTICK_ROUNDS, clock);
  return { seconds, cpuUs, eventsPerSecond: (player.events - before) / seconds, queue };
}

function perThousand(counts: Counts, histories: number): Record<CoveragePoint, number> {
  const names = Object.keys(COVERAGE_LABELS) as CoveragePoint[];
  return Object.fromEntries(names.map((name) => [name, Math.round((1000 * counts[name]) / histories)])) as Counts;
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}

function describe(bench: SimBench): string {
  const hit = (Object.entries(COVERAGE_LABELS) as [CoveragePoint, string][]).map(
    ([name, words]) => `  ${String(bench.situations[name]).padStart(6)}  ${words}`,
  );
  return [
    `${bench.historiesPerSecond} histories/s, ${bench.eventsPerSecond} events/s, one thread, monitors on; ${bench.cpuUsPerHistory} us of CPU each`,
    `a history: ${bench.faultsPerHistory} faults, ${bench.eventsPerHistory} events, ${bench.stepsPerHistory} steps of the lock, ${bench.claimsPerHistory} claims`,
    `${bench.violations} violations of any property`,
    `${bench.ratioToQueue} events per pop-and-push of the calibration (${bench.popAndPushPerSecond}/s)`,
    'in a thousand histories:',
    ...hit,
    `cost of monitors, % of the CPU time: ${bench.monitors.map((it) => `${it.monitor} ${it.percent}`).join('; ')}`,
    `median of ${bench.rounds} rounds of ${bench.historiesPerRound}; hash ${bench.hash}`,
    machineLine(),
    '',
  ].join('\n');
}
