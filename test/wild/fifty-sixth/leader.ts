import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { createClient } from 'redis';
import winston from 'winston';

type Client = ReturnType<typeof createClient>;

const logger = winston.createLogger({
  defaultMeta: { component: 'leader' },
  transports: [new winston.transports.Console()],
});

// One script for both running and staying in office.
const CAMPAIGN = `
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface LeaderOptions {
  group: string;
  ttlMs?: number;
  /** Called for each term. Must stop what it started when the signal aborts. */
  onElected: (term: AbortSignal) => void;
}

export class Leader {
  private readonly id = `${hostname()}/${randomUUID()}`;
  private readonly key: string;
  private readonly ttlMs: number;
  private term: AbortController | null = null;
  private validUntil = 0;
  private tickTimer?: NodeJS.Timeout;
  private termTimer?: NodeJS.Timeout;
  private started = false;
  private stopped = false;

  constructor(private readonly client: Client, private readonly options: LeaderOptions) {
    this.key = `leader:${options.group}`;
    this.ttlMs = options.ttlMs ?? 20_000;
  }

  get isLeader(): boolean {
    return this.term !== null && performance.now() < this.validUntil;
  }

  start(): void {
    if (this.started) throw new Error('a Leader runs once; make another');
    this.started = true;
    void this.tick();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.tickTimer);
    this.endTerm('shutting down');
    await this.client.eval(RESIGN, { keys: [this.key], arguments: [this.id] });
  }

  private async tick(): Promise<void> {
    const sentAt = performance.now();
    try {
      const won = await this.client.eval(CAMPAIGN, {
        keys: [this.key],
        arguments: [this.id, String(this.ttlMs)],
      });
      if (this.stopped) return;
      if (won === 1) this.serveUntil(sentAt + this.ttlMs * 0.9);
      else this.endTerm('another member holds the office');
    } catch (err) {
      logger.warn('campaign failed', { group: this.options.group, err });
      this.endTerm('redis unreachable');
    }
    if (!this.stopped) {
      this.tickTimer = setTimeout(() => void this.tick(), this.ttlMs / 4);
    }
  }

  private serveUntil(until: number): void {
    const left = until - performance.now();
    if (left <= 0) return this.endTerm('answer came too late');

    this.validUntil = until;
    clearTimeout(this.termTimer);
    this.termTimer = setTimeout(() => this.endTerm('term ran out'), left);
    if (this.term) return;

    this.term = new AbortController();
    logger.info('elected', { group: this.options.group, id: this.id });
    try {
      this.options.onElected(this.term.signal);
    } catch (err) {
      logger.error('onElected threw', { err });
      this.endTerm('onElected threw');
    }
  }

  private endTerm(reason: string): void {
    clearTimeout(this.termTimer);
    this.validUntil = 0;
    if (!this.term) return;
    const term = this.term;
    this.term = null;
    logger.info('stepping down', { group: this.options.group, reason });
    term.abort(new Error(reason));
  }
}
