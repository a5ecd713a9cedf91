import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';

interface LoggerLike {
  warn(msg: string): void;
  error(msg: string): void;
}

const EXTEND_LUA = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;
const UNLOCK_LUA = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

// @Injectable() lives in the module file, this class stays framework free for the unit tests
export class ReportLockService {
  private readonly ttlMs = 20_000;
  private readonly marginMs = 3_000;
  private readonly maxHoldMs = 30 * 60_000;

  constructor(
    private readonly redis: Redis,
    private readonly logger: LoggerLike,
  ) {}

  /**
   * Runs `job` while holding report:{id}. Resolves undefined if somebody else is at it.
   * The job gets a signal and must look at it between its steps; a single step takes
   * well under marginMs (they are one upsert each).
   */
  async runExclusive<T>(reportId: string, job: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const key = `report:lock:${reportId}`;
    const token = randomUUID();

    let t0 = performance.now();
    let got: string | null;
    try {
      got = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    } catch (err) {
      await this.unlock(key, token);
      throw err;
    }
    if (got !== 'OK') return undefined;

    const ac = new AbortController();
    const hardStop = t0 + this.maxHoldMs;
    let stopped = false;
    let expiry: NodeJS.Timeout;
    let renewal: NodeJS.Timeout | undefined;

    const lose = (why: string) => {
      if (ac.signal.aborted) return;
      this.logger.error(`${key}: ${why}`);
      ac.abort(new Error(`lock on report ${reportId} lost: ${why}`));
    };
    const armExpiry = () => {
      clearTimeout(expiry);
      const left = t0 + this.ttlMs - this.marginMs - performance.now();
      if (left <= 0) lose('lease ran out');
      else expiry = setTimeout(() => lose('lease ran out'), left);
    };
    const renew = async (): Promise<void> => {
      if (stopped || ac.signal.aborted) return;
      const asked = performance.now();
      if (asked > hardStop) return lose('held too long');
      try {
        const ok = await this.redis.eval(EXTEND_LUA, 1, key, token, this.ttlMs);
        if (stopped || ac.signal.aborted) return;
        if (ok !== 1) return lose('key is not ours any more');
        t0 = asked;
        armExpiry();
      } catch (err) {
        // expiry timer is still ticking from the last good renewal
        this.logger.warn(`${key}: renew failed: ${(err as Error).message}`);
      }
      if (!stopped) renewal = setTimeout(renew, this.ttlMs / 4);
    };

    armExpiry();
    renewal = setTimeout(renew, this.ttlMs / 4);
    try {
      ac.signal.throwIfAborted();
      return await job(ac.signal);
    } finally {
      stopped = true;
      clearTimeout(expiry!);
      clearTimeout(renewal);
      await this.unlock(key, token);
    }
  }

  private async unlock(key: string, token: string): Promise<void> {
    await this.redis
      .eval(UNLOCK_LUA, 1, key, token)
      .catch((err: Error) => this.logger.warn(`${key}: unlock failed: ${err.message}`));
  }
}

export class MonthlyReportJob {
  constructor(
    private readonly locks: ReportLockService,
    private readonly rows: { upsert(reportId: string, line: unknown, opts: { timeoutMs: number }): Promise<void> },
  ) {}

  async build(reportId: string, lines: AsyncIterable<unknown>) {
    return this.locks.runExclusive(reportId, async (signal) => {
      let n = 0;
      for await (const line of lines) {
        signal.throwIfAborted();
        await this.rows.upsert(reportId, line, { timeoutMs: 1_500 });
        n++;
      }
      return n;
    });
  }
}
