import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Redis } from 'ioredis';

const TTL_MS = 12_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** Exclusive use of one stacking block of the container yard. */
export class BlockLease implements AsyncDisposable {
  private readonly lost = new AbortController();
  private readonly beat: NodeJS.Timeout;
  private until: number;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    asked: number,
  ) {
    this.until = asked + TTL_MS;
    this.beat = setInterval(() => void this.extend(), TTL_MS / 4);
  }

  static async acquire(redis: Redis, block: string): Promise<BlockLease> {
    const key = `yard:block:${block}`;
    const token = randomUUID();
    const asked = performance.now();
    if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
      throw new Error(`block ${block} is in use`);
    }
    return new BlockLease(redis, key, token, asked);
  }

  /** Throws unless at least `ms` of the lease are left. */
  ensure(ms: number): void {
    this.lost.signal.throwIfAborted();
    if (this.until - performance.now() < ms) throw new Error('lease is running out');
  }

  private async extend(): Promise<void> {
    const asked = performance.now();
    try {
      if ((await this.redis.eval(EXTEND, 1, this.key, this.token, TTL_MS)) === 1) this.until = asked + TTL_MS;
      else this.lost.abort(new Error('lease was lost'));
    } catch {
      // `until` stays where it is
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.beat);
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch(() => undefined);
  }
}

export interface Move {
  container: string;
  from: string;
  to: string;
}

export interface CraneApi {
  plan(block: string, container: string): Promise<Move[]>;
  /** Ends within five seconds, one way or the other. */
  move(step: Move): Promise<{ doneAt: string }>;
}

async function carryOut(crane: CraneApi, lease: BlockLease, steps: Move[]): Promise<string[]> {
  const receipts: string[] = [];
  for (const step of steps) {
    lease.ensure(6_000);
    const { doneAt } = await crane.move(step);
    receipts.push(`${step.container} ${step.from}>${step.to} ${doneAt}`);
  }
  return receipts;
}

/** Digs a container out of its stack; nobody else may move anything in the block meanwhile. */
export async function digOut(redis: Redis, crane: CraneApi, block: string, container: string): Promise<string[]> {
  await using lease = await BlockLease.acquire(redis, block);

  const steps = await crane.plan(block, container);
  if (steps.length === 0) return [];

  return carryOut(crane, lease, steps);
}
