import type { Redis } from 'ioredis';
import { InputError } from '../../scenarios/index.js';
import type { SearchTotals } from '../../search/search-totals.js';
import { violatingRuns } from '../part.js';
import { CampaignRanges, type CampaignSpec, specHash } from '../spec.js';
import type { Failure, UnitResult } from '../unit.js';
import { COMMIT } from './commit.js';
import { flattened, unflattened } from './counters.js';

/** Runs and violations of one search within some seconds. */
export interface Throughput {
  readonly search: number;
  /** Since the campaign began, s. */
  readonly atS: number;
  readonly runs: number;
  readonly violating: number;
}

/** What is in the ledger. */
export interface StoredResults {
  readonly done: number;
  /** Ranges that no worker could make, with why. */
  readonly failed: Readonly<Record<string, string>>;
  readonly tallies: readonly SearchTotals[];
  readonly failures: readonly Failure[];
  /** Failures of further shapes, of which only the number is kept. */
  readonly unkept: number;
  /** Ranges that were made twice and came to different things: the engine is not deterministic there. */
  readonly mismatches: number;
  /** Since the campaign began, s. */
  readonly elapsedS: number;
  /** From the beginning to the latest range, s. */
  readonly workedS: number;
  readonly pace: readonly Throughput[];
}

/** What is kept. */
const KEYS = ['spec', 'ranges', 'totals', 'failures', 'failed', 'pace'] as const;

/** Seconds that are counted together. */
export const PACE_S = 10;

/**
 * What is kept of a campaign in Redis, beside the queue: each range once, however many workers run it and however often. The queue
 * may lose a job or give it out twice; what counts is written here, by one script for each range.
 */
export class ResultStore {
  private readonly redis: Redis;
  private readonly prefix: string;

  constructor(redis: Redis, name: string) {
    this.redis = redis;
    // One slot of a cluster.
    this.prefix = `lockstep:{${name}}:`;
  }

  private key(name: (typeof KEYS)[number]): string {
    return this.prefix + name;
  }

  /**
   * Opens a campaign, or finds the same one open.
   *
   * @throws InputError if there is another one of this name.
   */
  async open(spec: CampaignSpec): Promise<void> {
    await this.redis.setnx(this.key('spec'), JSON.stringify(spec));
    const there = await this.spec();
    if (there.engine !== spec.engine) throw new InputError(skewed(there.engine, spec.engine));
    if (specHash(there) !== specHash(spec)) {
      throw new InputError('--name: a campaign of this name is there, with other settings; choose another name');
    }
    const [seconds] = await this.redis.time();
    await this.redis.hsetnx(this.key('totals'), 'began', String(seconds));
  }

  /** @throws InputError if there is no such campaign. */
  async spec(): Promise<CampaignSpec> {
    const text = await this.redis.get(this.key('spec'));
    if (text === null) throw new InputError('--name: there is no campaign of this name on this server');
    return JSON.parse(text);
  }

  /** Those of these ranges that have not been made, and can be. */
  async left(indices: readonly number[]): Promise<number[]> {
    if (indices.length === 0) return [];
    const fields = indices.map(String);
    const [done, failed] = await Promise.all([
      this.redis.hmget(this.key('ranges'), ...fields),
      this.redis.hmget(this.key('failed'), ...fields),
    ]);
    return indices.filter((_, i) => (done[i] ?? null) === null && (failed[i] ?? null) === null);
  }

  /** Enters what a range came to, unless it is there. */
  async commit(result: UnitResult): Promise<void> {
    const { index, search, tally, failures } = result;
    const names = ['ranges', 'totals', 'failures', 'pace'] as const;
    const keys = names.map((name) => this.key(name));
    await this.redis.eval(
      COMMIT,
      keys.length,
      ...keys,
      index,
      tally.hash,
      search,
      PACE_S,
      JSON.stringify(flattened(tally)),
      JSON.stringify(failures.map((it) => ({ shape: it.shape, search, run: it.run, text: JSON.stringify(it) }))),
      tally.runs,
      violatingRuns(tally),
    );
  }

  /** The hash of what a range came to; `null` if it has not been made. */
  async digestOf(index: number): Promise<string | null> {
    return await this.redis.hget(this.key('ranges'), String(index));
  }

  /** Gives a range up. */
  async giveUp(index: number, why: string): Promise<void> {
    await this.redis.hset(this.key('failed'), String(index), why);
  }

  /** Whether nothing is left to do, or enough has been found. */
  async isOver(spec: CampaignSpec): Promise<boolean> {
    const [done, failed, [violating, began], [now = 0]] = await Promise.all([
      this.redis.hlen(this.key('ranges')),
      this.redis.hlen(this.key('failed')),
      this.redis.hmget(this.key('totals'), 'violating', 'began'),
      this.redis.time(),
    ]);
    if (spec.budgetMs !== null && (Number(now) - Number(began ?? now)) * 1000 >= spec.budgetMs) return true;
    if (spec.stopAfter !== null && Number(violating ?? 0) >= spec.stopAfter) return true;
    return done + failed >= new CampaignRanges(spec).count;
  }

  /** The digest of each range that has been made. */
  async digests(): Promise<ReadonlyMap<number, string>> {
    const ranges = await this.redis.hgetall(this.key('ranges'));
    return new Map(Object.entries(ranges).map(([index, digest]) => [Number(index), digest]));
  }

  async read(spec: CampaignSpec): Promise<StoredResults> {
    const [done, failed, totals, failures, pace, [now = 0]] = await Promise.all([
      this.redis.hlen(this.key('ranges')),
      this.redis.hgetall(this.key('failed')),
      this.redis.hgetall(this.key('totals')),
      this.redis.hvals(this.key('failures')),
      this.redis.hgetall(this.key('pace')),
      this.redis.time(),
    ]);
    const began = Number(totals.began ?? now);
    return {
      done,
      failed,
      tallies: spec.searches.map((_, search) => unflattened(totals, search)),
      failures: failures.map((text): Failure => JSON.parse(text)).sort((a, b) => a.search - b.search || a.run - b.run),
      unkept: Number(totals.unkept ?? 0),
      mismatches: Number(totals.mismatches ?? 0),
      elapsedS: Number(now) - began,
      workedS: Number(totals.latest ?? began) - began,
      pace: Object.entries(pace).map(([field, text]) => {
        const [at = 0, search = 0] = field.split(' ').map(Number);
        const [runs = 0, violating = 0] = text.split(' ').map(Number);
        return { search, atS: at * PACE_S - began, runs, violating };
      }),
    };
  }

  /** Forgets the campaign. */
  async remove(): Promise<void> {
    await this.redis.del(...KEYS.map((name) => this.key(name)));
  }
}

/** What is said where two machines have different engines. */
export function skewed(campaign: string, own: string): string {
  return (
    `this machine has another engine (${own}) than the campaign (${campaign}), and might find other things in the same ` +
    'range; build the same version with the same packages'
  );
}
