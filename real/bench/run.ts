import { createRequire } from 'node:module';
import { cpus } from 'node:os';
import { isLibraryInstalled } from '../client-libraries.js';
import { type Cell, type CellResult, measurementsOf, type Resolved, runCell } from './cell.js';
import { BenchCluster } from './cluster.js';
import { isInstalled, PEERS } from './peers.js';
import { comparisonsOf, delayOf, rowsOf } from './rows.js';
import { thresholdsOf } from './thresholds.js';
import { type BenchMachine, type BenchOptions, type BenchResult, HEALTHS, type Health, SHAPES } from './types.js';

/** Bad health is a share of these. */
const BAD_HEALTH_NODES = 5;
const ROUNDS = 21;

/**
 * Measures the lock on real nodes beside other libraries and the floors, in one run: own server processes unless
 * `LOCKSTEP_REDIS` names others.
 *
 * @throws ProvisionError if no real Redis can be had.
 */
export async function runBench(options: BenchOptions = {}): Promise<BenchResult> {
  const { nodes = [BAD_HEALTH_NODES], shapes = SHAPES, peers = true, rounds = ROUNDS, effort = 1, signal } = options;
  const largest = await BenchCluster.start(Math.max(...nodes));
  let machine: BenchMachine;
  let faults: boolean;
  try {
    machine = machineOf(largest);
    faults = largest.provision.faults;
  } finally {
    await largest[Symbol.asyncDispose]();
  }
  const healths = options.healths ?? (faults ? HEALTHS : ['healthy']);
  const cells = [
    ...nodes.flatMap((count) =>
      healths.includes('healthy') ? shapes.map((shape): Cell => ({ nodes: count, shape, health: 'healthy' })) : [],
    ),
    ...(nodes.includes(BAD_HEALTH_NODES) && faults
      ? healths.filter((health) => health !== 'healthy').map(badCell)
      : []),
  ];
  const results = await runCells(cells, { ...options, rounds, effort, peers });
  const rows = results.flatMap(rowsOf);
  const comparisons = results.flatMap(comparisonsOf);
  const delays = results.flatMap(delayOf);
  return {
    schema: 'lockstep.bench/1',
    machine,
    rounds,
    interrupted: signal?.aborted ?? false,
    rows,
    comparisons,
    delays,
    thresholds: thresholdsOf(rows, comparisons, delays),
    missing: [
      ...(peers ? PEERS.filter((peer) => !isInstalled(peer)).map(({ name }) => name) : []),
      ...(options.clients ?? []).filter((name) => !isLibraryInstalled(name)),
    ],
  };
}

function badCell(health: Health): Cell {
  return { nodes: BAD_HEALTH_NODES, shape: 'serial', health };
}

async function runCells(cells: readonly Cell[], options: Resolved): Promise<CellResult[]> {
  const { signal, onProgress } = options;
  const total = cells.reduce((sum, cell) => sum + measurementsOf(cell, options), 0);
  const results: CellResult[] = [];
  let done = 0;
  for (const cell of cells) {
    if (signal?.aborted) break;
    await using cluster = await BenchCluster.start(cell.nodes);
    await using healthy = cell.health === 'healthy' ? null : await BenchCluster.start(cell.nodes);
    results.push(await runCell(cell, options, cluster, healthy, () => onProgress?.({ ...cell, done: ++done, total })));
  }
  return results;
}

function machineOf(cluster: BenchCluster): BenchMachine {
  const ioredis: { version: string } = createRequire(import.meta.url)('ioredis/package.json');
  return {
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    cpu: cpus()[0]?.model ?? 'unknown',
    cpus: cpus().length,
    redis: cluster.provision.description,
    ioredis: ioredis.version,
  };
}
