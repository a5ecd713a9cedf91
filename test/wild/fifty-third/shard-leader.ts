import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import type { Logger } from 'pino';

const CLAIM = `
local holder = redis.call('get', KEYS[1])
if holder == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
if not holder then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export interface LeaderOptions {
  key: string;
  leaseMs?: number;
  renewEveryMs?: number;
  marginMs?: number;
}

/** Must settle soon after the signal aborts, within `marginMs`. */
export type LeaderTask = (signal: AbortSignal) => Promise<void>;

export const leaderRedis = (url: string) =>
  new Redis(url, { commandTimeout: 2_500, maxRetriesPerRequest: 1 });

export class ShardLeader {
  private readonly id = `${hostname()}/${randomUUID()}`;
  private readonly leaseMs: number;
  private readonly renewEveryMs: number;
  private readonly marginMs: number;
  private term: AbortController | null = null;
  private current: Promise<void> | null = null;
  private validUntil = 0;
  private watchdog?: NodeJS.Timeout;
  private stopped = false;

  constructor(
    private readonly redis: Redis,
    private readonly log: Logger,
    private readonly task: LeaderTask,
    private readonly options: LeaderOptions,
  ) {
    this.leaseMs = options.leaseMs ?? 15_000;
    this.renewEveryMs = options.renewEveryMs ?? 4_000;
    this.marginMs = options.marginMs ?? 2_000;
  }

  async run(): Promise<void> {
    while (!this.stopped) {
      await this.tick();
      await sleep(this.renewEveryMs);
    }
    this.endTerm('stopped');
    await this.current;
    await this.redis.eval(RESIGN, 1, this.options.key, this.id);
  }

  stop(): void {
    this.stopped = true;
  }

  private async tick(): Promise<void> {
    if (this.term && performance.now() >= this.validUntil) this.endTerm('lease ran out');
    if (!this.term && this.current) return;

    const sentAt = performance.now();
    let claimed: unknown;
    try {
      claimed = await this.redis.eval(CLAIM, 1, this.options.key, this.id, this.leaseMs);
    } catch (err) {
      this.log.warn({ err, key: this.options.key }, 'claim failed');
      return;
    }
    if (claimed !== 1) return this.endTerm('held by another instance');

    const until = sentAt + this.leaseMs - this.marginMs;
    if (performance.now() >= until) return this.endTerm('reply came too late');
    if (!this.term && this.current) return;

    this.validUntil = until;
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.endTerm('lease ran out'), until - performance.now());
    if (!this.term) this.beginTerm();
  }

  private beginTerm(): void {
    const term = new AbortController();
    this.term = term;
    this.log.info({ key: this.options.key, id: this.id }, 'leading');
    this.current = this.task(term.signal)
      .catch((err) => this.log.error({ err }, 'leader task failed'))
      .finally(() => {
        this.current = null;
        if (this.term === term) this.endTerm('task finished');
      });
  }

  private endTerm(reason: string): void {
    if (!this.term) return;
    clearTimeout(this.watchdog);
    this.term.abort(new Error(reason));
    this.term = null;
    this.log.info({ key: this.options.key, reason }, 'no longer leading');
  }
}
