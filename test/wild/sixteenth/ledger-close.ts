import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

/**
 * Closes an accounting period: posts the closing entries one by one. Only one
 * closer per period; the lock is kept alive while the postings go on.
 */
const TTL_MS = 15_000;
const BEAT_MS = 4_000;
const BEAT_TIMEOUT_MS = 3_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

type Client = Pick<RedisClientType, 'set' | 'eval'>;

export interface Ledger {
  closingEntries(period: string): Promise<{ account: string; cents: number }[]>;
  post(period: string, entry: { account: string; cents: number }, opts: { signal: AbortSignal }): Promise<void>;
}

export class PeriodLockedError extends Error {}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

class PeriodLock {
  private readonly token = randomUUID();
  private readonly lost = new AbortController();
  private timer?: NodeJS.Timeout;
  private beat: Promise<void> = Promise.resolve();
  readonly signal = this.lost.signal;

  constructor(
    private readonly client: Client,
    private readonly key: string,
  ) {}

  async acquire(): Promise<boolean> {
    const taken = await this.take();
    if (taken) this.schedule();
    return taken;
  }

  async release(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.lost.abort(new Error('released'));
    await this.beat;
    try {
      await this.client.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn('period lock left to its TTL', this.key, err);
    }
  }

  private async take(): Promise<boolean> {
    const reply = await this.client.set(this.key, this.token, {
      condition: 'NX',
      expiration: { type: 'PX', value: TTL_MS },
    });
    return reply === 'OK';
  }

  private schedule(): void {
    this.timer = setTimeout(() => {
      this.beat = this.keepAlive();
    }, BEAT_MS);
  }

  private async keepAlive(): Promise<void> {
    try {
      const extended = await within(
        this.client.eval(EXTEND, { keys: [this.key], arguments: [this.token, String(TTL_MS)] }),
        BEAT_TIMEOUT_MS,
      );
      // A missed beat: take the key again unless another closer has it.
      if (extended !== 1 && !(await within(this.take(), BEAT_TIMEOUT_MS))) {
        throw new PeriodLockedError(`${this.key} is held by another closer`);
      }
      if (!this.signal.aborted) this.schedule();
    } catch (err) {
      this.lost.abort(err);
    }
  }
}

export async function closePeriod(client: Client, ledger: Ledger, period: string): Promise<number> {
  const lock = new PeriodLock(client, `lock:ledger-close:${period}`);
  if (!(await lock.acquire())) throw new PeriodLockedError(`${period} is being closed`);
  try {
    const entries = await ledger.closingEntries(period);
    for (const entry of entries) {
      lock.signal.throwIfAborted();
      await ledger.post(period, entry, { signal: lock.signal });
    }
    return entries.length;
  } finally {
    await lock.release();
  }
}
