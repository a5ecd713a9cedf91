import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, Queue, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { InputError } from '../../scenarios/index.js';
import { engineHash } from '../engine.js';
import { RangeRunner, runInline } from '../range-runner.js';
import { notMade, type RerunResult } from '../rerun.js';
import { CampaignRanges, type CampaignSpec, librariesOf } from '../spec.js';
import { bullmq, connect, type QueueAddress } from './connection.js';
import { ResultStore, skewed } from './result-store.js';
import { type CampaignState, stateOf } from './state.js';

/** Jobs that are sent to the server at once. */
const BATCH = 1_000;
/**
 * How long a worker may be silent before its range is given to another, and how often that is looked after. A range
 * that is given out twice costs time and nothing else.
 */
const LOCK_MS = 10_000;
const STALLED_MS = 3_000;
const MOST_STALLS = 1_000;
/** Tries for a range that throws, which a deterministic engine does again; a worker without memory may not. */
const TRIES = 2;
const LOOK_MS = 1_000;

interface RangeJob {
  readonly index: number;
}

/** A campaign on a server, as one machine sees it. */
export class QueuedCampaign implements AsyncDisposable {
  readonly ledger: ResultStore;
  private readonly redis: Redis;
  private readonly name: string;
  private readonly queue: Queue<RangeJob>;

  private constructor(redis: Redis, name: string, queue: Queue<RangeJob>) {
    this.redis = redis;
    this.name = name;
    this.queue = queue;
    this.ledger = new ResultStore(redis, name);
  }

  /** @throws InputError if the server or a package is not there. */
  static async at(address: QueueAddress): Promise<QueuedCampaign> {
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(address.name)) {
      throw new InputError('--name: it has up to 64 letters, digits, - and _');
    }
    const { Queue } = await bullmq();
    const redis = await connect(address);
    const queue = new Queue<RangeJob>(queueName(address.name), { connection: redis });
    queue.on('error', () => {});
    return new QueuedCampaign(redis, address.name, queue);
  }

  /** Opens the campaign and puts all of its ranges into the queue that are not done or there: once or many times. */
  async enqueue(spec: CampaignSpec, onProgress: (enqueued: number, of: number) => void = () => {}): Promise<number> {
    await this.ledger.open(spec);
    const { count } = new CampaignRanges(spec);
    let added = 0;
    for (let at = 0; at < count; at += BATCH) {
      const batch = Array.from({ length: Math.min(BATCH, count - at) }, (_, i) => at + i);
      const left = await this.ledger.left(batch);
      await this.queue.addBulk(
        left.map((index) => ({
          name: 'range',
          data: { index },
          opts: { jobId: `range-${index}`, removeOnComplete: true, removeOnFail: true, attempts: TRIES },
        })),
      );
      added += left.length;
      onProgress(at + batch.length, count);
    }
    return added;
  }

  /** @throws InputError if the campaign is not there, or for another engine. */
  async join(): Promise<CampaignSpec> {
    const spec = await this.ledger.spec();
    const own = engineHash(librariesOf(spec));
    if (spec.engine !== own) throw new InputError(skewed(spec.engine, own));
    return spec;
  }

  /**
   * Makes ranges until the campaign is over or the signal comes; what has begun is then finished.
   *
   * @returns How many were made here.
   */
  async work(workers: number, signal: AbortSignal, onRange: (made: number) => void = () => {}): Promise<number> {
    const spec = await this.join();
    const ranges = new CampaignRanges(spec);
    // This thread has to be free, to say that the worker is alive.
    const maker = new RangeRunner(spec, workers, false);
    const { Worker } = await bullmq();
    let made = 0;
    const process = async ({ data: { index } }: Job<RangeJob>): Promise<void> => {
      const [left] = await this.ledger.left([index]);
      if (left === undefined) return;
      await this.ledger.commit(await maker.make(ranges.at(index)));
      made++;
      onRange(made);
    };
    const worker: Worker<RangeJob> = new Worker<RangeJob>(queueName(this.name), process, {
      connection: this.redis,
      concurrency: workers,
      lockDuration: LOCK_MS,
      stalledInterval: STALLED_MS,
      maxStalledCount: MOST_STALLS,
    });
    // A lost connection is made again; there is nothing to do.
    worker.on('error', () => {});
    worker.on('failed', (job, error) => {
      if (job !== undefined && job.attemptsMade >= TRIES) void this.ledger.giveUp(job.data.index, error.message);
    });
    try {
      await this.untilOver(spec, signal);
    } finally {
      await worker.close();
      await maker.close();
    }
    return made;
  }

  /** Looks now and then; an empty queue of a campaign that is not over has lost jobs, which are put back. */
  private async untilOver(spec: CampaignSpec, signal: AbortSignal): Promise<void> {
    let wasEmpty = false;
    while (!signal.aborted && !(await this.ledger.isOver(spec))) {
      const { waiting, active } = await this.jobs();
      const isEmpty = waiting + active === 0;
      if (isEmpty && wasEmpty) await this.enqueue(spec);
      wasEmpty = isEmpty;
      // An abort ends the wait; the caller checks the signal.
      await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    }
  }

  /**
   * Makes a range again by itself, and enters nothing.
   *
   * @throws InputError if there is no such range, or it has not been made.
   */
  async again(index: number): Promise<RerunResult> {
    const spec = await this.join();
    const digest = await this.ledger.digestOf(index);
    if (digest === null) throw new InputError(notMade(index));
    const range = new CampaignRanges(spec).at(index);
    return { spec, range, digest, unit: await runInline(spec, range) };
  }

  async jobs(): Promise<{ readonly waiting: number; readonly active: number }> {
    const counts = await this.queue.getJobCounts('waiting', 'active', 'delayed', 'prioritized');
    const { active = 0, ...others } = counts;
    return { waiting: Object.values(others).reduce((sum, count) => sum + count, 0), active };
  }

  /** How far it is, for people. */
  async state(): Promise<CampaignState> {
    const spec = await this.ledger.spec();
    const [books, digests, jobs, workers, isOver] = await Promise.all([
      this.ledger.read(spec),
      this.ledger.digests(),
      this.jobs(),
      this.queue.getWorkersCount(),
      this.ledger.isOver(spec),
    ]);
    return stateOf(spec, books, [...digests.keys()], { ...jobs, workers, isOver });
  }

  /** Forgets the campaign, with all that it found. */
  async remove(): Promise<void> {
    await this.queue.obliterate({ force: true });
    await this.ledger.remove();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.queue.close();
    this.redis.disconnect();
  }
}

function queueName(name: string): string {
  return `lockstep-${name}`;
}
