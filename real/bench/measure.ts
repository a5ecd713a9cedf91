import { createHistogram, performance, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Held, Subject, Worker } from './subjects.js';
import type { Shape } from './types.js';

/** How much a subject does in one round. */
export interface Load {
  readonly shape: Shape;
  /** Operations at most. */
  readonly operations: number;
  /** Time after which no further operation is begun, ms; with Infinity the operations decide. */
  readonly durationMs: number;
  /** An operation that takes longer is not waited for, ms; `null` waits for each. */
  readonly limitMs: number | null;
}

/** What one subject did in one round. */
export interface Round {
  readonly operations: number;
  readonly opsPerSecond: number;
  readonly cpuUsPerOp: number;
  /** Operations of each worker. */
  readonly shares: readonly number[];
}

const WORKERS: Readonly<Record<Shape, number>> = { serial: 1, concurrent64: 64, contended16: 16, extend: 1 };
const SLOW_NS = 2_000_000_000;
const ROUNDS_OF_SLOW = 3;
const HOLD_MS = 1;
const THINK_MS = 20;

/** All that was measured of one subject under one load. */
export class Series {
  readonly rounds: Round[] = [];
  /** Nanoseconds of each acquisition or extension, failed ones too. Node's own HdrHistogram. */
  readonly latencies: RecordableHistogram = createHistogram();
  readonly failures: Set<string> = new Set();
  operations = 0;
  failed = 0;
  /** Set once an operation was given up waiting for, ms. */
  stalledMs: number | null = null;

  /** Whether more rounds would only wait: an operation was given up, or takes so long that a few rounds tell. */
  get isEnough(): boolean {
    return this.stalledMs !== null || (this.latencies.max > SLOW_NS && this.rounds.length >= ROUNDS_OF_SLOW);
  }
}

class Stall extends Error {}

/** Lets `subject` work for one round, on resources below `prefix`. Adds to `series` unless no operation ended. */
export async function measure(
  subject: Subject,
  load: Load,
  prefix: string,
  series: Series,
  signal: AbortSignal | undefined,
): Promise<void> {
  const work = new Work(load, series, signal);
  const shared = load.shape === 'contended16';
  const workers = Array.from({ length: WORKERS[load.shape] }, (_, index) =>
    subject.worker(shared ? prefix : `${prefix}:${index}`),
  );
  const cpu = process.cpuUsage();
  const from = performance.now();
  await Promise.all(workers.map((worker, index) => work.run(worker, index)));
  const ms = shared ? Math.min(load.durationMs, performance.now() - from) : performance.now() - from;
  const { user, system } = process.cpuUsage(cpu);
  if (work.ended === 0) return;
  series.rounds.push({
    operations: work.ended,
    opsPerSecond: (work.ended * 1000) / ms,
    cpuUsPerOp: (user + system) / work.ended,
    shares: work.shares,
  });
}

/** One round in progress. */
class Work {
  readonly shares: number[];
  ended = 0;
  readonly #load: Load;
  readonly #series: Series;
  readonly #signal: AbortSignal | undefined;
  readonly #until: number;
  #started = 0;

  constructor(load: Load, series: Series, signal: AbortSignal | undefined) {
    this.#load = load;
    this.#series = series;
    this.#signal = signal;
    this.#until = performance.now() + load.durationMs;
    this.shares = Array.from({ length: WORKERS[load.shape] }, () => 0);
  }

  async run(worker: Worker, index: number): Promise<void> {
    switch (this.#load.shape) {
      case 'extend':
        return this.#extend(worker, index);
      case 'contended16':
        return this.#contend(worker, index);
      default:
        while (this.#goesOn()) {
          const held = await this.#timed(() => worker.acquire());
          await this.#giveBack(held);
          this.#count(index);
        }
    }
  }

  async #extend(worker: Worker, index: number): Promise<void> {
    const held = await worker.acquire();
    while (this.#goesOn()) {
      await this.#timed(() => held.extend());
      this.#count(index);
    }
    await held.release();
  }

  async #contend(worker: Worker, index: number): Promise<void> {
    while (this.#goesOn()) {
      const held = await this.#timed(() => worker.acquire());
      // What ends after the time has begun in it: its wait counts, the hand-off does not.
      if (performance.now() < this.#until && held !== null) this.#count(index);
      await sleep(HOLD_MS);
      await this.#giveBack(held);
      await sleep(THINK_MS);
    }
  }

  #goesOn(): boolean {
    if (this.#signal?.aborted || this.#series.stalledMs !== null) return false;
    return this.#started++ < this.#load.operations && performance.now() < this.#until;
  }

  #count(index: number): void {
    this.ended++;
    this.#series.operations++;
    this.shares[index] = (this.shares[index] ?? 0) + 1;
  }

  async #giveBack(held: Held | null): Promise<void> {
    if (held !== null) await this.#attempt(() => held.release());
  }

  /** Does something whose time counts; `null` if it failed. */
  async #timed<T>(action: () => Promise<T>): Promise<T | null> {
    const from = performance.now();
    const done = await this.#attempt(action);
    const ms = performance.now() - from;
    if (this.#series.stalledMs === null) this.#series.latencies.record(Math.max(1, Math.round(ms * 1e6)));
    return done;
  }

  async #attempt<T>(action: () => Promise<T>): Promise<T | null> {
    const { limitMs } = this.#load;
    try {
      return limitMs === null ? await action() : await within(limitMs, action());
    } catch (error) {
      if (error instanceof Stall) this.#series.stalledMs = limitMs;
      this.#series.failed++;
      this.#series.failures.add(nameOf(error));
      return null;
    }
  }
}

async function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Stall('stalled')), limitMs);
  });
  // It may still fail when nobody waits for it any more.
  work.catch(() => {});
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

function nameOf(error: unknown): string {
  if (error instanceof Stall) return 'stalled';
  if (!(error instanceof Error)) return String(error);
  const code: unknown = Reflect.get(error, 'code');
  return typeof code === 'string' ? code : error.name;
}
