import { randomBytes } from 'node:crypto';
import { cpus } from 'node:os';
import { type Provision, provision } from '../provisioner/index.js';
import { type Measurement, measure, quantile } from './measure.js';
import { floorSubject, lockstepSubject, type Subject } from './subjects.js';
import type { BenchOptions, BenchResult, BenchRow, Health, Shape, SubjectName } from './types.js';

const OPERATIONS: Readonly<Record<Shape, number>> = { serial: 400, concurrent64: 3000 };
const HEALTHS: readonly Health[] = ['healthy', 'one-killed', 'one-stopped'];

interface Series {
  readonly subject: SubjectName;
  readonly shape: Shape;
  readonly health: Health;
  /** By round. */
  readonly measurements: Measurement[];
}

/**
 * Measures acquire-and-release on real nodes, against the floor in the same run: five own server processes unless
 * `LOCKSTEP_REDIS` names others.
 *
 * @throws ProvisionError if no real Redis can be had.
 */
export async function runBench(options: BenchOptions = {}): Promise<BenchResult> {
  const { nodes = 5, rounds = 7, shapes = ['serial', 'concurrent64'] } = options;
  await using provided = await provision({ nodes });
  const healths = options.healths ?? (provided.faults ? HEALTHS : ['healthy' as const]);
  const bench = new Bench(options, provided, rounds, rounds * shapes.length * (healths.length + 1));
  await bench.run(shapes, healths);
  return {
    schema: 'lockstep.bench/1',
    machine: {
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      cpu: cpus()[0]?.model ?? 'unknown',
      cpus: cpus().length,
      redis: provided.description,
    },
    rounds,
    interrupted: options.signal?.aborted ?? false,
    rows: bench.rows(),
  };
}

class Bench {
  readonly #options: BenchOptions;
  readonly #provision: Provision;
  readonly #rounds: number;
  readonly #total: number;
  readonly #series: Series[] = [];
  #prefix = `lockstep:bench:${randomBytes(4).toString('hex')}`;
  #done = 0;

  constructor(options: BenchOptions, provided: Provision, rounds: number, total: number) {
    this.#options = options;
    this.#provision = provided;
    this.#rounds = rounds;
    this.#total = total;
  }

  async run(shapes: readonly Shape[], healths: readonly Health[]): Promise<void> {
    const lockstep = lockstepSubject(this.#provision);
    const floor = await floorSubject(this.#provision);
    try {
      // Healthy first, because the other rows are compared with its floor.
      await this.#measureAll([lockstep, floor], shapes, 'healthy');
      for (const health of healths) {
        if (health === 'healthy' || this.#options.signal?.aborted) continue;
        await this.#spoil(health);
        await this.#measureAll([lockstep], shapes, health);
        await this.#heal(health);
      }
    } finally {
      await Promise.all([lockstep.close(), floor.close()]);
    }
  }

  rows(): BenchRow[] {
    return this.#series.filter((series) => series.measurements.length > 0).map((series) => this.#row(series));
  }

  async #measureAll(subjects: readonly Subject[], shapes: readonly Shape[], health: Health): Promise<void> {
    const { signal, operations, onProgress } = this.#options;
    for (const shape of shapes) {
      const count = operations?.[shape] ?? OPERATIONS[shape];
      const all = subjects.map(({ name }): Series => ({ subject: name, shape, health, measurements: [] }));
      this.#series.push(...all);
      // Warms up the compiler, which would otherwise favour whoever runs later.
      for (const subject of subjects) await measure(subject, shape, count * 2, this.#prefix, signal);
      for (let round = 0; round < this.#rounds; round++) {
        for (let turn = 0; turn < subjects.length; turn++) {
          const index = (round + turn) % subjects.length;
          const subject = subjects[index];
          if (subject === undefined || signal?.aborted) return;
          const measurement = await measure(subject, shape, count, this.#prefix, signal);
          if (measurement !== undefined) all[index]?.measurements.push(measurement);
          onProgress?.({ done: ++this.#done, total: this.#total, shape, health });
        }
      }
    }
  }

  async #spoil(health: Health): Promise<void> {
    const node = this.#provision.nodes.at(-1);
    if (health === 'one-killed') await node?.kill();
    if (health === 'one-stopped') await node?.pause();
  }

  async #heal(health: Health): Promise<void> {
    const node = this.#provision.nodes.at(-1);
    if (health === 'one-killed') await node?.restart({ keepData: false });
    if (health === 'one-stopped') await node?.resume();
  }

  #row({ subject, shape, health, measurements }: Series): BenchRow {
    const latencies = measurements.flatMap(({ latenciesUs }) => [...latenciesUs]);
    return {
      subject,
      nodes: this.#provision.nodes.length,
      shape,
      health,
      opsPerSecond: Math.round(median(measurements.map((it) => it.opsPerSecond))),
      p50Us: Math.round(quantile(latencies, 0.5)),
      p99Us: Math.round(quantile(latencies, 0.99)),
      cpuUsPerOp: Math.round(median(measurements.map((it) => it.cpuUsPerOp))),
      ratioToFloor: this.#ratioToFloor(shape, health, measurements),
    };
  }

  #ratioToFloor(shape: Shape, health: Health, measurements: readonly Measurement[]): number {
    const floor = this.#series.find((it) => it.subject === 'floor' && it.shape === shape)?.measurements ?? [];
    const typical = median(floor.map((it) => it.opsPerSecond));
    const ratios = measurements.map((it, round) => {
      const against = health === 'healthy' ? floor[round]?.opsPerSecond : typical;
      return it.opsPerSecond / (against ?? typical);
    });
    return Math.round(median(ratios) * 1000) / 1000;
  }
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}
